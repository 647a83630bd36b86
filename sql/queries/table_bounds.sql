-- What one call of table_bounds runs. functions/table_bounds.py fills in:
--   $described  names and types of all tables      $problem  the check of them
--   $sources    the tables as CTEs _dk_cells_0, ..., and each variable's values as _dk_levels_0, ...
--   $answer     the engine's call                  $shown    the target's variables under their own names
--   $joined     the target's values                $order    their codes
WITH
_dk_described AS (SELECT [$described] AS described),
_dk_checked AS (SELECT system.main.error($problem) IS NULL AS fine FROM _dk_described),
$sources,
_dk_answered AS MATERIALIZED (SELECT $answer AS answer),
_dk_found AS (
  SELECT
    unnest(answer.found.codes) AS codes,
    unnest(answer.found.lower) AS "lower",
    unnest(answer.found.upper) AS "upper",
    unnest(answer.found."exact") AS "exact",
    unnest(answer.found.disclosed) AS disclosed
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
)
SELECT $shown, "lower", "upper", "exact", disclosed
FROM _dk_found $joined
ORDER BY $order
