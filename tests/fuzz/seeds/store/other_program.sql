--
PRAGMA application_id = 5;
