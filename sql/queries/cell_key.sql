-- What one call of cell_key runs. functions/cell_key.py fills in, beside source.sql:
--   $keys      the columns of the table as c1, ...     $order     them in ascending order
--   $key       the cell's key, as an aggregate         $flaws     what may be wrong with records' keys, as an aggregate
--   $given     the caller's perturbation table, as a list, or NULL
--   $answer    the engine's call                       $released  the columns under their own names
--   $sets      how cells are grouped                   $levels    which totals they are, as columns, or nothing
--   $measures  what else is added up of a cell         $shown     the count and the sum as they are published
--   $valued    the join with the change of a sum, or nothing
WITH
-- include source.sql
_dk_counted AS MATERIALIZED (
  SELECT $keys $levels system.main.count(*) AS records, $key AS cell_key, $flaws AS flaws $measures
  FROM (SELECT * FROM _dk_source) AS _dk_records $sets
),
_dk_sound AS (
  SELECT system.main.error(system.main.max(flaws)) IS NULL AS fine FROM _dk_counted
),
_dk_given AS MATERIALIZED (
  SELECT $given AS given
),
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_given WHERE (SELECT fine FROM _dk_sound)
),
_dk_ptable AS MATERIALIZED (
  SELECT unnest(answer.ptable, recursive := true) FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
),
_dk_last AS (
  SELECT system.main.max(i) AS i FROM _dk_ptable
)
SELECT $released $shown
FROM _dk_counted
CROSS JOIN _dk_last
JOIN _dk_ptable
  ON _dk_ptable.i = CASE WHEN records < _dk_last.i THEN records ELSE _dk_last.i END
  AND cell_key >= _dk_ptable.first_key
  AND cell_key < _dk_ptable.beyond_key
$valued
WHERE records + _dk_ptable.v > 0
ORDER BY $order
