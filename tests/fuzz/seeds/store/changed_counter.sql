--
UPDATE counter SET value = 0;
