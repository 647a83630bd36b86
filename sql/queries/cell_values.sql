-- The result of cell_values, after queries/cells.sql. functions/cells.py fills in:
--   $columns    all combinations of column values  $row_keys  r1, ...            $same_column  a cell is in that column
--   $released   the columns under their own names
, found AS (
  SELECT
    unnest(answer.found.rows) AS place,
    unnest(answer.found.divisors) AS divisor,
    unnest(answer.found.offsets) AS extra,
    unnest(answer.found.kinds) AS kind
  FROM answered
  WHERE _dk_unless(answer.problem)
),
runs AS (
  SELECT
    unnest(answer.found.run_kinds) AS kind,
    unnest(answer.found.first) AS first,
    unnest(answer.found.step) AS step,
    unnest(answer.found.size) AS size
  FROM answered
),
named AS (
  SELECT DISTINCT $row_keys, place FROM cells
),
possible AS (
  SELECT named.*, every.*, coalesce(cells.n, 0) // divisor AS unit, kind, extra
  FROM found
  JOIN named USING (place)
  CROSS JOIN ($columns) AS every
  LEFT JOIN cells ON cells.place = found.place AND $same_column
),
-- A zero is a zero whatever the row's total.
stretches AS (
  SELECT possible.*, first, step, size FROM possible JOIN runs USING (kind) WHERE unit > 0
  UNION ALL
  SELECT possible.*, 0, 1, 1 FROM possible WHERE unit = 0
),
-- A run may have more values than fit into memory: it is cut three times before it is unrolled.
pieces AS (
  SELECT *, unnest(system.main.range(0, size, 8589934592)) AS a FROM stretches
),
parts AS (
  SELECT *, unnest(system.main.range(a, least(size, a + 8589934592), 4194304)) AS b FROM pieces
),
chunks AS (
  SELECT *, unnest(system.main.range(b, least(size, b + 4194304), 2048)) AS c FROM parts
)
SELECT
  $released,
  unit * (extra + first + step * unnest(system.main.range(c, least(size, c + 2048)))) AS value
FROM chunks
