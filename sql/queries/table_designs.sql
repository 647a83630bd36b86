-- What one call of table_designs runs. functions/table_designs.py fills in, beside source.sql:
--   $keys     the variables as v1, ...              $codes    each variable's codes
--   $amount   a cell's records, as an aggregate     $flaws    what may be wrong with them, as an aggregate
--   $answer   the engine's call
--   $levels   the values of the variables to merge, as text, by number of the variable
WITH
-- include source.sql
_dk_counted AS MATERIALIZED (
  SELECT $keys, $amount AS records, $flaws AS flaws FROM _dk_source GROUP BY ALL
),
_dk_sound AS (
  SELECT system.main.error(system.main.max(flaws)) IS NULL AS fine FROM _dk_counted
),
_dk_cells AS (
  SELECT [$codes] AS codes, TRY_CAST(records AS BIGINT) AS n FROM _dk_counted WHERE (SELECT fine FROM _dk_sound)
),
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_cells
),
_dk_found AS (
  SELECT unnest(answer.designs) AS design FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
),
_dk_named AS (
  SELECT $levels AS levels
)
SELECT
  design.rows,
  design.cols,
  design.omitted,
  design.n,
  CAST(design.row_count AS HUGEINT) AS row_count,
  CAST(design.col_count AS HUGEINT) AS col_count,
  CAST(design.zero_rows AS HUGEINT) AS zero_rows,
  design.unit_rows,
  design.disclosed_rows,
  CAST(design.zero_cells AS HUGEINT) AS zero_cells,
  design.disclosed_small_cells,
  design.reduced_total,
  design.information,
  design.dependence,
  system.main.list_transform(
    design.merged,
    lambda one: {
      'variable': one.variable,
      'first_values': system.main.list_transform(one.starts, lambda start: levels[one.number][start])
    }
  ) AS merged
FROM _dk_found, _dk_named
ORDER BY design.place
