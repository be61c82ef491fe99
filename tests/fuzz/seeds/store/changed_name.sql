--
UPDATE op_name SET name = 'mlp.uq' WHERE op = 4096;
