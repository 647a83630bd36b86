-- The result of disclosure_report, after queries/cells.sql.
, _dk_measured AS (
  SELECT unnest(answer.found) FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
)
SELECT
  n,
  CAST(row_count AS HUGEINT) AS row_count,
  CAST(col_count AS HUGEINT) AS col_count,
  CAST(zero_rows AS HUGEINT) AS zero_rows,
  unit_rows,
  disclosed_rows,
  CAST(zero_cells AS HUGEINT) AS zero_cells,
  disclosed_small_cells,
  reduced_total
FROM _dk_measured
