-- cell_values: every count that each cell can have under exact row proportions and the sample size. Large answers
-- are streamed: the engine gives runs of values, and SQL unrolls them.

CREATE OR REPLACE TEMP MACRO cell_values(tbl, rows, cols, count := NULL, known := NULL) AS TABLE
  FROM system.main.query(system.main._dk_write_cell_values(tbl, rows, cols, count, known));
