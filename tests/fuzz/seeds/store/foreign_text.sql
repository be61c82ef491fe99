--
PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE TABLE note(a)' WHERE name = 'note';
