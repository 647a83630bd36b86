-- table_designs: every way to give some variables the roles of rows, columns or neither, and what it would give away.

CREATE OR REPLACE TEMP MACRO table_designs(
  tbl, variables, count := NULL, small := 5, fixed_rows := [], fixed_cols := [], max_cols := NULL, merge := []
) AS TABLE
  FROM system.main.query(
    system.main._dk_write_table_designs(tbl, variables, count, small, fixed_rows, fixed_cols, max_cols, merge)
  );
