--
UPDATE run SET status = 0 WHERE run_id = 2; INSERT INTO writer VALUES(1, 999999, 1, 'boot', 'pid:[1]', 'here', 0, 0);
