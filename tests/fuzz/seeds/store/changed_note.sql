--
UPDATE note SET text = 'a mote';
