-- What one call of k_utility runs. functions/k_utility.py fills in:
--   $before, $after                the tables' names, literals   $problem  the check of their columns
--   $before_columns, $after_columns  what is needed of each      $before_absent, $after_absent  the same as NULLs
--   $answer                        the engine's call over both   $trees  tables with the hierarchies of labels
WITH
_dk_described AS (
  SELECT
    (SELECT system.main.list(column_name) FROM (DESCRIBE FROM system.main.query_table($before))) AS names,
    (SELECT system.main.list(column_type) FROM (DESCRIBE FROM system.main.query_table($before))) AS types,
    (SELECT system.main.list(column_name) FROM (DESCRIBE FROM system.main.query_table($after))) AS after_names,
    (SELECT system.main.list(column_type) FROM (DESCRIBE FROM system.main.query_table($after))) AS after_types
),
_dk_sound AS MATERIALIZED (
  SELECT system.main.error($problem) IS NULL AS fine FROM _dk_described
),
_dk_source AS (
  FROM (FROM system.main.query_table($before) UNION ALL BY NAME SELECT $before_absent WHERE false)
  WHERE (SELECT fine FROM _dk_sound)
),
$trees
-- Rows that agree are handed over once.
_dk_before AS (
  SELECT {$before_values, 'duckanon.records': system.main.count(*)} AS "duckanon.cells"
  FROM _dk_source AS "duckanon.row"
  GROUP BY $before_columns, $before_hash
),
_dk_after AS (
  SELECT {$after_values, 'duckanon.records': system.main.count(*)} AS "duckanon.cells"
  FROM (FROM system.main.query_table($after) UNION ALL BY NAME SELECT $after_absent WHERE false) AS "duckanon.row"
  WHERE (SELECT fine FROM _dk_sound)
  GROUP BY $after_columns, $after_hash
),
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_described
)
SELECT unnest(answer.rows, recursive := true) FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
