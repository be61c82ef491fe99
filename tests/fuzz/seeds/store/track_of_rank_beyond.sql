--
UPDATE track SET rank = 99 WHERE rank = 1; UPDATE batch SET rank = 99 WHERE rank = 1;
