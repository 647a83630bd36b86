-- The result of cell_bounds, after queries/cells.sql. functions/cells.py fills in:
--   $columns    all combinations of column values  $row_keys  r1, ...            $same_column  a cell is in that column
--   $released   the columns under their own names  $order     every column in ascending order
, _dk_found AS (
  SELECT
    unnest(answer.found.rows) AS place,
    unnest(answer.found.divisors) AS divisor,
    unnest(answer.found.lower) AS least,
    unnest(answer.found.upper) AS most,
    unnest(answer.found.feasible) AS feasible
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
),
_dk_named AS (
  SELECT DISTINCT $row_keys, place FROM _dk_cells
),
_dk_bounded AS (
  SELECT
    _dk_named.*,
    every.*,
    coalesce(_dk_cells.n, 0) AS n,
    least * (coalesce(_dk_cells.n, 0) // divisor) AS "lower",
    most * (coalesce(_dk_cells.n, 0) // divisor) AS "upper",
    CASE WHEN coalesce(_dk_cells.n, 0) = 0 THEN 1 ELSE feasible END AS feasible
  FROM _dk_found
  JOIN _dk_named USING (place)
  CROSS JOIN ($columns) AS every
  LEFT JOIN _dk_cells ON _dk_cells.place = _dk_found.place AND $same_column
)
SELECT $released, n, "lower", "upper", feasible, "lower" = "upper" AS disclosed
FROM _dk_bounded
ORDER BY $order
