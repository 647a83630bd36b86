-- Fills the catalogs from `seen.classes`, `seen.columns` and `seen.comments`: the tables, views and columns that a user
-- may see, and what is said of them.
-- :user, :owner (of everything), :database and :writes are filled in as constants.

INSERT INTO pg.pg_namespace BY NAME
SELECT DISTINCT namespace AS oid, schema_name AS nspname, 10 AS nspowner FROM seen.classes
UNION SELECT * FROM (VALUES (11, 'pg_catalog', 10), (13000, 'information_schema', 10), (2200, 'main', 10));

INSERT INTO pg.pg_class BY NAME
SELECT
  oid, name AS relname, namespace AS relnamespace, 0 AS reltype, 0 AS reloftype, 10 AS relowner,
  CASE kind WHEN 'v' THEN 0 ELSE 2 END AS relam, CASE kind WHEN 'v' THEN 0 ELSE oid END AS relfilenode,
  0 AS reltablespace, 0 AS relpages, -1 AS reltuples, 0 AS relallvisible, 0 AS reltoastrelid, false AS relhasindex,
  false AS relisshared, CASE schema_name WHEN 'temp' THEN 't' ELSE 'p' END AS relpersistence, kind AS relkind,
  columns AS relnatts, 0 AS relchecks, kind = 'v' AS relhasrules, false AS relhastriggers, false AS relhassubclass,
  oid IN (SELECT class FROM seen.comments) AS relrowsecurity, false AS relforcerowsecurity, true AS relispopulated,
  CASE kind WHEN 'v' THEN 'n' ELSE 'd' END AS relreplident, false AS relispartition, 0 AS relrewrite,
  0 AS relfrozenxid, 0 AS relminmxid
FROM seen.classes;

INSERT INTO pg.pg_attribute BY NAME
SELECT
  one.class AS attrelid, one.name AS attname, one.type AS atttypid, -1 AS attstattarget, kind.typlen AS attlen,
  one.place AS attnum, one.dimensions AS attndims, -1 AS attcacheoff, one.modifier AS atttypmod,
  kind.typbyval AS attbyval, kind.typalign AS attalign, kind.typstorage AS attstorage, '' AS attcompression,
  NOT one.nullable AS attnotnull, false AS atthasdef, false AS atthasmissing, '' AS attidentity, '' AS attgenerated,
  false AS attisdropped, true AS attislocal, 0 AS attinhcount, kind.typcollation AS attcollation
FROM seen.columns AS one JOIN pg.pg_type AS kind ON kind.oid = one.type;

INSERT INTO pg.pg_tables BY NAME
SELECT
  schema_name AS schemaname, name AS tablename, :owner AS tableowner, false AS hasindexes, false AS hasrules,
  false AS hastriggers, oid IN (SELECT class FROM seen.comments) AS rowsecurity
FROM seen.classes WHERE kind <> 'v';

INSERT INTO pg.pg_description BY NAME
SELECT class AS objoid, 1259 AS classoid, place AS objsubid, text AS description FROM seen.comments;

-- psql's \d lists row security under a table: no row of a protected table is shown, and its numbers get noise.
INSERT INTO pg.pg_policy BY NAME
SELECT
  class AS oid, text AS polname, class AS polrelid, '*' AS polcmd, true AS polpermissive, [0]::UINTEGER[] AS polroles
FROM seen.comments WHERE place = 0;

INSERT INTO pg.pg_views BY NAME
SELECT schema_name AS schemaname, name AS viewname, :owner AS viewowner FROM seen.classes WHERE kind = 'v';

-- As in PostgreSQL each view has a rule, by which pgAdmin finds it. What it says is not shown.
INSERT INTO pg.pg_rewrite BY NAME
SELECT oid, '_RETURN' AS rulename, oid AS ev_class, '1' AS ev_type, 'O' AS ev_enabled, true AS is_instead
FROM seen.classes WHERE kind = 'v';

INSERT INTO pg.pg_stat_user_tables BY NAME
SELECT oid AS relid, schema_name AS schemaname, name AS relname FROM seen.classes WHERE kind <> 'v';
INSERT INTO pg.pg_stat_all_tables BY NAME FROM pg.pg_stat_user_tables;
INSERT INTO pg.pg_statio_user_tables BY NAME
SELECT oid AS relid, schema_name AS schemaname, name AS relname FROM seen.classes WHERE kind <> 'v';
INSERT INTO pg.pg_statio_all_tables BY NAME FROM pg.pg_statio_user_tables;

INSERT INTO info.schemata BY NAME
SELECT :database AS catalog_name, nspname AS schema_name, :owner AS schema_owner FROM pg.pg_namespace;

INSERT INTO info.tables BY NAME
SELECT
  :database AS table_catalog, schema_name AS table_schema, name AS table_name,
  CASE WHEN kind = 'v' THEN 'VIEW' WHEN schema_name = 'temp' THEN 'LOCAL TEMPORARY' ELSE 'BASE TABLE' END AS table_type,
  CASE WHEN :writes AND kind <> 'v' THEN 'YES' ELSE 'NO' END AS is_insertable_into, 'NO' AS is_typed
FROM seen.classes;

INSERT INTO info.views BY NAME
SELECT
  :database AS table_catalog, schema_name AS table_schema, name AS table_name, 'NONE' AS check_option,
  'NO' AS is_updatable, 'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable,
  'NO' AS is_trigger_insertable_into
FROM seen.classes WHERE kind = 'v';

INSERT INTO info.columns BY NAME
SELECT
  :database AS table_catalog, class.schema_name AS table_schema, class.name AS table_name, one.name AS column_name,
  one.place AS ordinal_position, CASE WHEN one.nullable THEN 'YES' ELSE 'NO' END AS is_nullable,
  CASE WHEN kind.typcategory = 'A' THEN 'ARRAY' ELSE dk_type_name(one.type) END AS data_type,
  information_schema_precision(one.type, one.modifier) AS numeric_precision,
  CASE one.type WHEN 21 THEN 2 WHEN 23 THEN 2 WHEN 20 THEN 2 WHEN 700 THEN 2 WHEN 701 THEN 2 WHEN 1700 THEN 10 END
    AS numeric_precision_radix,
  CASE WHEN one.type IN (20, 21, 23) THEN 0 WHEN one.type = 1700 AND one.modifier > 3 THEN (one.modifier - 4) & 65535 END
    AS numeric_scale,
  CASE WHEN one.type = 25 THEN 1073741824 END AS character_octet_length,
  CASE WHEN one.type IN (1083, 1114, 1184, 1186, 1266) THEN 6 WHEN one.type = 1082 THEN 0 END AS datetime_precision,
  :database AS udt_catalog, 'pg_catalog' AS udt_schema, kind.typname AS udt_name, one.place AS dtd_identifier,
  'NO' AS is_self_referencing, 'NO' AS is_identity, 'NO' AS identity_cycle, 'NEVER' AS is_generated,
  CASE WHEN :writes AND class.kind <> 'v' THEN 'YES' ELSE 'NO' END AS is_updatable
FROM seen.columns AS one JOIN seen.classes AS class ON class.oid = one.class JOIN pg.pg_type AS kind ON kind.oid = one.type;

INSERT INTO info.table_privileges BY NAME
SELECT
  :owner AS grantor, :user AS grantee, :database AS table_catalog, schema_name AS table_schema, name AS table_name,
  'SELECT' AS privilege_type, 'NO' AS is_grantable, 'NO' AS with_hierarchy
FROM seen.classes;
INSERT INTO info.role_table_grants BY NAME FROM info.table_privileges;

INSERT INTO info.column_privileges BY NAME
SELECT
  :owner AS grantor, :user AS grantee, :database AS table_catalog, table_schema, table_name, column_name,
  'SELECT' AS privilege_type, 'NO' AS is_grantable
FROM info.columns;
