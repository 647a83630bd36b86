-- conditional_bounds: what an outsider learns of each count from published row proportions `p` and the sample size `n`.

CREATE OR REPLACE TEMP MACRO conditional_bounds(tbl, rows, cols, p, n, digits := NULL, ties := 'any') AS TABLE
  FROM system.main.query(system.main._dk_write_conditional_bounds(tbl, rows, cols, p, n, digits, ties));
