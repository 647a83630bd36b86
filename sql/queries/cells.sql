-- What one call of cell_bounds, cell_values or disclosure_report runs. functions/cells.py fills in, beside source.sql:
--   $keys     the row columns as r1, ..., the column columns as c1, ...
--   $amount   a cell's records, as an aggregate     $flaws    what may be wrong with them, as an aggregate
--   $in_rows  r1, ... in ascending order            (facts)   what is known, as CTEs that end in one called _dk_facts
--   $answer   the engine's call                     (result)  the query over its answer
WITH
-- include source.sql
_dk_counted AS (
  SELECT $keys, $amount AS records, $flaws AS flaws FROM _dk_source GROUP BY ALL
),
_dk_cells AS MATERIALIZED (
  SELECT
    * EXCLUDE (records, flaws),
    TRY_CAST(records AS BIGINT) AS n,
    flaws,
    system.main.dense_rank() OVER (ORDER BY $in_rows) AS place
  FROM _dk_counted
),
_dk_sound AS (
  SELECT system.main.error(system.main.max(flaws)) IS NULL AS fine FROM _dk_cells
),
$facts,
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_cells WHERE (SELECT fine FROM _dk_sound)
)
$result
