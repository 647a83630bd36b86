-- cell_bounds: how far each count is given away by exact row proportions and the sample size. A row for each cell of
-- a nonzero row. The statement that answers a call is written from queries/cells.sql when the call is bound.

CREATE OR REPLACE TEMP MACRO cell_bounds(tbl, rows, cols, count := NULL, known := NULL) AS TABLE
  FROM system.main.query(system.main._dk_write_cell_bounds(tbl, rows, cols, count, known));
