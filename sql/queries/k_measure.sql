-- What one call of k_report or k_compare runs. functions/templates.py fills in:
--   $table    the table's name, a literal         $absent   NULL AS "<column>" for each column the call names
--   $problem  the check of names and types        $source   the rows the engine's call packs
--   $answer   the engine's call                   $rows     its result, as rows
WITH _dk_described AS (
  SELECT system.main.list(column_name) AS names, system.main.list(column_type) AS types
  FROM (DESCRIBE FROM system.main.query_table($table))
),
-- The empty branch names every column, so a missing one is told by the check and not by the binder.
_dk_source AS (
  SELECT * EXCLUDE ("duckanon.row") FROM (
    FROM system.main.query_table($table)
    UNION ALL BY NAME
    SELECT $absent WHERE false
  )
  WHERE (SELECT _dk_unless($problem) FROM _dk_described)
),
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM $source AS "duckanon.row"
)
SELECT $rows FROM _dk_answered WHERE _dk_unless(answer.problem)
