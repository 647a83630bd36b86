-- The result of cell_values, after queries/cells.sql. functions/cells.py fills in:
--   $columns    all combinations of column values  $row_keys  r1, ...            $same_column  a cell is in that column
--   $released   the columns under their own names
, _dk_found AS (
  SELECT
    unnest(answer.found.rows) AS place,
    unnest(answer.found.divisors) AS divisor,
    unnest(answer.found.offsets) AS extra,
    unnest(answer.found.kinds) AS kind
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
),
_dk_runs AS (
  SELECT
    unnest(answer.found.run_kinds) AS kind,
    unnest(answer.found.first) AS first,
    unnest(answer.found.step) AS step,
    unnest(answer.found.size) AS size
  FROM _dk_answered
),
_dk_named AS (
  SELECT DISTINCT $row_keys, place FROM _dk_cells
),
_dk_possible AS (
  SELECT _dk_named.*, every.*, coalesce(_dk_cells.n, 0) // divisor AS unit, kind, extra
  FROM _dk_found
  JOIN _dk_named USING (place)
  CROSS JOIN ($columns) AS every
  LEFT JOIN _dk_cells ON _dk_cells.place = _dk_found.place AND $same_column
),
-- A zero is a zero whatever the row's total.
_dk_stretches AS (
  SELECT _dk_possible.*, first, step, size FROM _dk_possible JOIN _dk_runs USING (kind) WHERE unit > 0
  UNION ALL
  SELECT _dk_possible.*, 0, 1, 1 FROM _dk_possible WHERE unit = 0
),
-- A run may have more values than fit into memory: it is cut three times before it is unrolled.
_dk_pieces AS (
  SELECT *, unnest(system.main.range(0, size, 8589934592)) AS a FROM _dk_stretches
),
_dk_parts AS (
  SELECT *, unnest(system.main.range(a, least(size, a + 8589934592), 4194304)) AS b FROM _dk_pieces
),
_dk_chunks AS (
  SELECT *, unnest(system.main.range(b, least(size, b + 4194304), 2048)) AS c FROM _dk_parts
)
SELECT
  $released,
  unit * (extra + first + step * unnest(system.main.range(c, least(size, c + 2048)))) AS value
FROM _dk_chunks
