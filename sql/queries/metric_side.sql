-- Another table of a call of metric_mechanism or metric_report. functions/metric.py fills in:
--   $side     its name among the CTEs               $table    the table's name, a literal
--   $absent   NULL AS "<column>" for each column    $problem  the check of names and types
--   $columns  what is taken of it                   $joins    how its records are found
, _dk_${side}_described AS (
  SELECT system.main.list(column_name) AS names, system.main.list(column_type) AS types
  FROM (DESCRIBE FROM system.main.query_table($table))
),
_dk_${side} AS (
  SELECT $columns
  FROM (
    FROM system.main.query_table($table)
    UNION ALL BY NAME
    SELECT $absent WHERE false
  ) AS side
  $joins
  WHERE (SELECT system.main.error($problem) IS NULL FROM _dk_${side}_described)
)
