--
UPDATE step SET rank = 7 WHERE rank = 1;
