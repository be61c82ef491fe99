--
UPDATE track SET queue = 99;
