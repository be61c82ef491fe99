--
UPDATE memory SET category = 77 WHERE rank = 0;
