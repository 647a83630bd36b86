-- The result of disclosure_report, after queries/cells.sql. functions/cells.py fills in:
--   $row_count, $col_count  the combinations that rows and columns can have
, _dk_shaped AS (
  SELECT unnest(answer.found), $row_count AS row_count, $col_count AS col_count
  FROM _dk_answered
  WHERE _dk_unless(answer.problem)
)
SELECT
  n,
  row_count,
  col_count,
  row_count - nonzero_rows AS zero_rows,
  unit_rows,
  disclosed_rows,
  nonzero_rows * col_count - nonzero_cells AS zero_cells,
  disclosed_small_cells,
  reduced_total
FROM _dk_shaped
