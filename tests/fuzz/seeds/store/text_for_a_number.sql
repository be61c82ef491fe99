--
UPDATE run SET world = 'two'; UPDATE span SET duration_ns = 'text';
