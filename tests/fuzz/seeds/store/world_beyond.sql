--
UPDATE run SET world = 1 << 40;
