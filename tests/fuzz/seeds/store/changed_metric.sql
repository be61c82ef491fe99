--
UPDATE metric SET value = 0;
