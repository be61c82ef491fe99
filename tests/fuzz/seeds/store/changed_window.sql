--
UPDATE step SET end_ns = end_ns + 1 WHERE step = 0;
