-- The records of metric_mechanism and metric_report, before what each does with them. functions/metric.py fills in,
-- beside source.sql:
--   $id       the column that names records         $id_text  what an error calls it, a literal
--   $values   features and prior, as a struct       (sides)   the other tables of the call, as CTEs
WITH
-- include source.sql
-- Places follow the records' own names, so that nothing depends on the order of rows.
_dk_records AS MATERIALIZED (
  SELECT
    $id AS id,
    system.main.encode(CAST($id AS VARCHAR)) AS key,
    $values AS "values",
    system.main.row_number() OVER (ORDER BY $id ASC NULLS LAST, system.main.encode(CAST($id AS VARCHAR))) - 1 AS place
  FROM _dk_source
),
_dk_sound AS (
  SELECT system.main.error(CASE
    WHEN system.main.count(key) < system.main.count(*)
      THEN $id_text || ' is NULL in some row: name every record.'
    WHEN system.main.count(DISTINCT key) < system.main.count(*)
      THEN $id_text || ' names a record twice: give one row for each.'
  END) IS NULL AS fine
  FROM _dk_records
)$sides
