-- The records of metric_mechanism and metric_report, before what each does with them. functions/metric.py fills in:
--   $table    the table's name, a literal           $absent   NULL AS "<column>" for each column the call names
--   $problem  the check of names and types          $id       the column that names records
--   $values   features and prior, as a struct       (sides)   the other tables of the call, as CTEs
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
-- Places follow the records' own names, so that nothing depends on the order of rows.
_dk_records AS MATERIALIZED (
  SELECT
    $id AS id,
    _dk_bytes($id) AS key,
    $values AS "values",
    system.main.row_number() OVER (ORDER BY $id ASC NULLS LAST, _dk_bytes($id)) - 1 AS place
  FROM _dk_source
),
_dk_sound AS (
  SELECT _dk_unless(CASE
    WHEN system.main.count(key) < system.main.count(*)
      THEN $id_text || ' is NULL in some row: name every record.'
    WHEN system.main.count(DISTINCT key) < system.main.count(*)
      THEN $id_text || ' names a record twice: give one row for each.'
  END) AS fine
  FROM _dk_records
)$sides
