-- The result of cell_bounds, after queries/cells.sql. functions/cells.py fills in:
--   $columns    all combinations of column values  $row_keys  r1, ...            $same_column  a cell is in that column
--   $released   the columns under their own names  $order     every column in ascending order
, found AS (
  SELECT
    unnest(answer.found.rows) AS place,
    unnest(answer.found.divisors) AS divisor,
    unnest(answer.found.lower) AS least,
    unnest(answer.found.upper) AS most,
    unnest(answer.found.feasible) AS feasible
  FROM answered
  WHERE _dk_unless(answer.problem)
),
named AS (
  SELECT DISTINCT $row_keys, place FROM cells
),
bounded AS (
  SELECT
    named.*,
    every.*,
    coalesce(cells.n, 0) AS n,
    least * (coalesce(cells.n, 0) // divisor) AS "lower",
    most * (coalesce(cells.n, 0) // divisor) AS "upper",
    CASE WHEN coalesce(cells.n, 0) = 0 THEN 1 ELSE feasible END AS feasible
  FROM found
  JOIN named USING (place)
  CROSS JOIN ($columns) AS every
  LEFT JOIN cells ON cells.place = found.place AND $same_column
)
SELECT $released, n, "lower", "upper", feasible, "lower" = "upper" AS disclosed
FROM bounded
ORDER BY $order
