--
DELETE FROM model;
