-- What a connection sees of the catalog where a table's name is looked up: temporary tables and the search path are its
-- own. `found` may hold too much, and is matched exactly later. It is an expression, and takes:
--   $tbl  the table's name, as it was written
{
  'database': system.main.current_database(),
  'schema': system.main.current_schema(),
  'path': system.main.current_setting('search_path'),
  'found': (
    SELECT system.main.list({'database': _dk_d, 'schema': _dk_s, 'name': _dk_n, 'definition': _dk_v, 'sql': _dk_q})
    FROM (
      SELECT database_name AS _dk_d, schema_name AS _dk_s, table_name AS _dk_n, '' AS _dk_v, "sql" AS _dk_q
      FROM system.main.duckdb_tables()
      WHERE NOT internal
      UNION ALL
      SELECT database_name, schema_name, view_name, "sql", "sql"
      FROM system.main.duckdb_views()
      WHERE NOT internal
    )
    WHERE system.main.ends_with(
      system.main.lower(system.main.replace($tbl, '"', '')), system.main.lower(system.main.replace(_dk_n, '"', ''))
    )
  )
}
