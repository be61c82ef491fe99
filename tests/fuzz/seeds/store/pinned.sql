--
UPDATE run SET pinned = 1;
