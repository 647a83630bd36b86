-- What one call of conditional_bounds runs. functions/conditional_bounds.py fills in, beside source.sql:
--   $share    the proportion                        $keys     the row columns as r1, ..., the column columns as c1, ...
--   $in_rows  r1, ... in ascending order            $order    r1, ..., c1, ... in ascending order
--   $answer   the engine's call                     $released the columns under their own names
WITH
-- include source.sql
_dk_grouped AS (
  SELECT
    $keys,
    system.main.any_value($share) AS share,
    system.main.count(*) AS times
  FROM _dk_source
  GROUP BY ALL
),
_dk_cells AS MATERIALIZED (
  SELECT
    *,
    system.main.dense_rank() OVER (ORDER BY $in_rows) AS place,
    system.main.row_number() OVER (ORDER BY $order) AS cell
  FROM _dk_grouped
),
_dk_sound AS (
  SELECT system.main.error(CASE
    WHEN system.main.max(times) > 1
      THEN 'A cell is there more than once: give one proportion for each combination of rows and cols.'
    WHEN system.main.count(share) < system.main.count(*)
      THEN 'A proportion is NULL: leave out rows without proportions.'
  END) IS NULL AS fine
  FROM _dk_cells
),
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_cells WHERE (SELECT fine FROM _dk_sound)
),
_dk_found AS (
  SELECT
    unnest(answer.found.cells) AS cell,
    unnest(answer.found.lower) AS "lower",
    unnest(answer.found.upper) AS "upper",
    unnest(answer.found.feasible) AS feasible
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
)
SELECT $released, "lower", "upper", feasible, "lower" = "upper" AS disclosed
FROM _dk_cells JOIN _dk_found USING (cell)
ORDER BY cell
