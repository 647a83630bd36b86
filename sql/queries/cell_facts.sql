-- What is known of cells, beside queries/cells.sql. functions/cells.py fills in:
--   $known  the table of facts, a literal   $known_absent  NULL AS "<column>" for each column it needs
--   $known_problem  the check of its names  $known_keys    its row columns as r1, ..., its column columns as c1, ...
--   $same_row  a fact's row is a cell's     $same_cell     a fact's cells hold a cell
--   $row_keys  r1, ...            $placed        the table has the fact's column values
_dk_known_described AS (
  SELECT system.main.list(column_name) AS names, system.main.list(column_type) AS types
  FROM (DESCRIBE FROM system.main.query_table($known))
),
_dk_known AS (
  SELECT
    $known_keys,
    "lower" AS low,
    "upper" AS high,
    system.main.row_number() OVER () AS fact
  FROM (
    FROM system.main.query_table($known)
    UNION ALL BY NAME
    SELECT $known_absent WHERE false
  )
  WHERE (SELECT system.main.error($known_problem) IS NULL FROM _dk_known_described)
),
_dk_places AS (
  SELECT DISTINCT $row_keys, place FROM _dk_cells
),
_dk_facts AS (
  SELECT
    fact,
    system.main.any_value(placed) AS placed,
    system.main.any_value(p.place) AS place,
    CAST(coalesce(system.main.sum(c.n), 0) AS BIGINT) AS part,
    system.main.any_value(CAST(low AS VARCHAR)) AS low,
    system.main.any_value(CAST(high AS VARCHAR)) AS high
  FROM (SELECT k.*, $placed AS placed FROM _dk_known AS k) AS k
  LEFT JOIN _dk_places AS p ON $same_row
  LEFT JOIN _dk_cells AS c ON c.place = p.place AND $same_cell
  GROUP BY fact
)
