--
UPDATE run SET status = 0 WHERE run_id = 2; INSERT INTO writer VALUES(1, 4711, 1, 'boot', 'pid:[1]', 'elsewhere', 0, CAST(strftime('%s', 'now') AS INT) * 1000000000);
