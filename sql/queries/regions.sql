-- The regions of a public table, inside queries/group_counts.sql. functions/group_sizes.py fills in:
--   $table   its name, a literal             $absent   NULL AS "<column>" for each column of the hierarchy
--   $problem the check of names and types    $columns  the hierarchy's columns as h1, ...
(
  SELECT $columns FROM (
    FROM system.main.query_table($table)
    UNION ALL BY NAME
    SELECT $absent WHERE false
  )
  WHERE (
    SELECT system.main.error($problem) IS NULL
    FROM
      (
        SELECT system.main.list(column_name) AS names, system.main.list(column_type) AS types
        FROM (DESCRIBE FROM system.main.query_table($table))
      ),
      (SELECT {'names': names, 'types': types} AS theirs FROM _dk_described)
  )
)
