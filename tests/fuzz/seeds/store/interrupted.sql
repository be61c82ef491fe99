--
UPDATE run SET status = 2, message = 'process 7 ended without closing the run' WHERE run_id = 2;
