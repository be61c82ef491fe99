--
DELETE FROM enum_name;
