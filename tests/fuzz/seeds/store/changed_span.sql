--
UPDATE span SET bytes = bytes + 1 WHERE start_ns = 0;
