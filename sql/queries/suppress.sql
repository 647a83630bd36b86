-- What one call of suppress runs. functions/suppress.py fills in, beside source.sql:
--   $keys      the columns of all dimensions under our names
--   $amount    what a record adds to its cell          $contributors  how many contributors it stands for
--   $unit      whose record it is                      $exact         whether the table keeps all its decimals
--   $flaws     what may be wrong with the records, as an aggregate
--   $dimensions  for each dimension its leaves, the nodes above each, and its nodes (functions/crossed.py)
--   $leaves    leaf_0, ... of a record                 $leaved     the join of records with them
--   $measures  a cell's sum, contributors and largest contributions, from records
--   $cells     the same for the cells of all tables    $apriori    what is decided about cells beforehand
--   $answer    the engine's call                       $places     node_0, ...
--   $placed    those of the answer                     $joined     the join of the answer with the nodes
--   $released  the columns under their own names       $levels     the levels of a cell
--   $sum       a cell's sum                            $audited    the columns for the officer
WITH
-- include source.sql
_dk_records AS MATERIALIZED (
  SELECT $keys, $amount AS amount, $contributors AS contributors, $unit AS unit, $exact AS exact FROM _dk_source
),
_dk_sound AS (
  SELECT system.main.error($flaws) IS NULL AS fine FROM _dk_records
),
$dimensions,
_dk_parts AS MATERIALIZED (
  SELECT $leaves, unit, $measures FROM _dk_records $leaved GROUP BY ALL
),
_dk_sums AS MATERIALIZED (
  $cells
),
$apriori
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_sums
),
_dk_found AS (
  SELECT
    $placed,
    unnest(answer.found.status) AS status,
    unnest(answer.found."lower") AS "lower",
    unnest(answer.found."upper") AS "upper"
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
)
SELECT
  $released,
  $levels,
  CASE WHEN status = 'published' THEN $sum END AS "value",
  status <> 'published' AS suppressed
  $audited
FROM _dk_found
$joined
LEFT JOIN _dk_sums USING ($places)
ORDER BY $places
