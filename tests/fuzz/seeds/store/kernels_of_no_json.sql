--
UPDATE attachment SET body = '{', crc = NULL WHERE name = 'kernels';
