--
DELETE FROM note WHERE run_id = 1; DELETE FROM clock WHERE run_id = 2;
