--
UPDATE run SET kind = 99 WHERE run_id = 1;
