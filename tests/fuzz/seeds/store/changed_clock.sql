--
UPDATE clock SET width_ns = 6;
