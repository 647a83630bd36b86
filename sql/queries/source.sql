-- The table that a call names, checked before a row is read; other queries include this. It takes of them:
--   $table    the table's name, a literal     $absent  NULL AS "<column>" for each column the call names
--   $problem  the check of names and types    $taken   what is taken of it, all columns unless a query says otherwise
_dk_described AS (
  SELECT system.main.list(column_name) AS names, system.main.list(column_type) AS types
  FROM (DESCRIBE FROM system.main.query_table($table))
),
-- The empty branch names every column, so a missing one is told by the check and not by the binder.
_dk_source AS (
  SELECT $taken FROM (
    FROM system.main.query_table($table)
    UNION ALL BY NAME
    SELECT $absent WHERE false
  )
  WHERE (SELECT system.main.error($problem) IS NULL FROM _dk_described)
),
