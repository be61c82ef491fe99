--
DELETE FROM batch WHERE batch = 1 AND run_id = 1;
