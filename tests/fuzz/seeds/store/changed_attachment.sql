--
UPDATE attachment SET body = x'00';
