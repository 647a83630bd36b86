-- What the catalogs hold whatever tables there are.
-- :user, :owner (of everything) and :database are filled in as constants.

INSERT INTO pg.pg_database BY NAME
SELECT
  16385 AS oid, :database AS datname, 10 AS datdba, 6 AS encoding, 'c' AS datlocprovider, false AS datistemplate,
  true AS datallowconn, -1 AS datconnlimit, 0 AS datfrozenxid, 1 AS datminmxid, 1663 AS dattablespace,
  'C' AS datcollate, 'C' AS datctype;

INSERT INTO pg.pg_roles BY NAME
SELECT
  oid, rolname, false AS rolsuper, true AS rolinherit, false AS rolcreaterole, false AS rolcreatedb, true AS rolcanlogin,
  false AS rolreplication, -1 AS rolconnlimit, '********' AS rolpassword, false AS rolbypassrls
FROM (VALUES (10, :owner), (16384, :user)) AS one(oid, rolname) WHERE oid = 10 OR rolname <> :owner;
INSERT INTO pg.pg_authid BY NAME SELECT * EXCLUDE (rolpassword, rolconfig) FROM pg.pg_roles;
INSERT INTO pg.pg_user BY NAME
SELECT
  rolname AS usename, oid AS usesysid, false AS usecreatedb, false AS usesuper, false AS userepl, false AS usebypassrls,
  rolpassword AS passwd
FROM pg.pg_roles;
INSERT INTO info.enabled_roles BY NAME SELECT :user AS role_name;
INSERT INTO info.applicable_roles BY NAME SELECT :user AS grantee, :user AS role_name, 'NO' AS is_grantable;
INSERT INTO info.information_schema_catalog_name BY NAME SELECT :database AS catalog_name;

INSERT INTO pg.pg_am BY NAME SELECT 2 AS oid, 'heap' AS amname, 'heap_tableam_handler' AS amhandler, 't' AS amtype;
INSERT INTO pg.pg_tablespace BY NAME SELECT 1663 AS oid, 'pg_default' AS spcname, 10 AS spcowner;
INSERT INTO pg.pg_language BY NAME
SELECT 14 AS oid, 'sql' AS lanname, 10 AS lanowner, false AS lanispl, true AS lanpltrusted;
INSERT INTO pg.pg_collation BY NAME
SELECT 100 AS oid, 'default' AS collname, 11 AS collnamespace, 10 AS collowner, 'd' AS collprovider, -1 AS collencoding
UNION ALL SELECT 950, 'C', 11, 10, 'c', -1;
INSERT INTO pg.pg_timezone_names BY NAME SELECT 'UTC' AS name, 'UTC' AS abbrev, INTERVAL 0 SECOND AS utc_offset, false AS is_dst;
INSERT INTO pg.pg_timezone_abbrevs BY NAME SELECT 'UTC' AS abbrev, INTERVAL 0 SECOND AS utc_offset, false AS is_dst;
