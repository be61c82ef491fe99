--
DELETE FROM span WHERE start_ns > 50;
