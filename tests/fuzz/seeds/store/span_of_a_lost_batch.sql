--
UPDATE span SET batch = 1000 WHERE start_ns = 0;
