--
UPDATE memory SET rank = 40;
