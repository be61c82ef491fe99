--
UPDATE span SET class = 200 WHERE start_ns = 0;
