-- What BI tools that cannot be installed ask, by their sources and documents: the same catalogs, functions and shapes.
-- The statements are written here, not copied; each asks what the tool asks at that moment.

-- tool: Grafana
SELECT current_setting('server_version_num')::int / 100 AS version;

SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';

SELECT one.schema_name AS name FROM information_schema.schemata AS one WHERE one.schema_name NOT IN
('information_schema', 'pg_catalog', 'pg_toast') ORDER BY one.schema_name;

SELECT quote_ident(one.table_name) AS shown FROM information_schema.tables AS one WHERE
quote_ident(one.table_schema) = 'main' ORDER BY 1;

SELECT CASE WHEN quote_ident(one.table_schema) IN ( SELECT CASE WHEN trim(part[at]) = '"$user"' THEN user ELSE
trim(part[at]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS at,
string_to_array(current_setting('search_path'), ',') AS part) THEN quote_ident(one.table_name) ELSE
quote_ident(one.table_schema) || '.' || quote_ident(one.table_name) END AS shown FROM information_schema.tables AS
one WHERE one.table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY 1;

SELECT quote_ident(one.column_name) AS shown, one.data_type FROM information_schema.columns AS one WHERE CASE WHEN
array_length(parse_ident('persons'), 1) = 2 THEN quote_ident(one.table_schema) = (parse_ident('persons'))[1] ELSE
quote_ident(one.table_name) = 'persons' AND quote_ident(one.table_schema) IN ( SELECT CASE WHEN trim(part[at]) =
'"$user"' THEN user ELSE trim(part[at]) END FROM
generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS at,
string_to_array(current_setting('search_path'), ',') AS part) END;

SELECT floor(extract(epoch FROM visit_ts) / 3600) * 3600 AS time, count(*) AS n FROM visits WHERE visit_ts BETWEEN
'2024-02-01T00:00:00Z' AND '2024-03-01T00:00:00Z' GROUP BY 1 ORDER BY 1;

-- tool: Redash
SELECT space.nspname AS table_schema, class.relname AS table_name, field.attname AS column_name, NULL AS data_type
FROM pg_class AS class JOIN pg_namespace AS space ON class.relnamespace = space.oid AND space.nspname NOT IN
('pg_catalog', 'information_schema') AND has_schema_privilege(space.nspname, 'USAGE') JOIN pg_attribute AS field ON
field.attrelid = class.oid AND field.attnum > 0 AND NOT field.attisdropped WHERE class.relkind = 'm' AND
has_table_privilege(quote_ident(space.nspname) || '.' || quote_ident(class.relname), 'SELECT') UNION SELECT
one.table_schema, one.table_name, one.column_name, one.data_type FROM information_schema.columns AS one WHERE
one.table_schema NOT IN ('information_schema', 'pg_catalog') AND has_table_privilege(quote_ident(one.table_schema)
|| '.' || quote_ident(one.table_name), 'SELECT');

SELECT shop, sum(amount) AS amount FROM visits GROUP BY shop ORDER BY shop;

-- tool: Metabase
show timezone;

SELECT space.nspname, kind.typname FROM pg_type AS kind JOIN pg_namespace AS space ON space.oid = kind.typnamespace
WHERE kind.oid IN (SELECT DISTINCT enumtypid FROM pg_enum);

SELECT "space"."nspname" AS "schema", "class"."relname" AS "name", CASE "class"."relkind" WHEN 'r' THEN 'TABLE' WHEN
'v' THEN 'VIEW' ELSE NULL END AS "kind", "said"."description", "told"."n_live_tup" FROM "pg_catalog"."pg_class" AS
"class" INNER JOIN "pg_catalog"."pg_namespace" AS "space" ON "class"."relnamespace" = "space"."oid" LEFT JOIN
"pg_catalog"."pg_description" AS "said" ON ("class"."oid" = "said"."objoid") AND ("said"."objsubid" = 0) AND
("said"."classoid" = 'pg_class'::regclass) LEFT JOIN "pg_stat_user_tables" AS "told" ON ("space"."nspname" =
"told"."schemaname") AND ("class"."relname" = "told"."relname") WHERE ("space"."nspname" !~ '^pg_') AND
class.relkind IN ('r', 'p', 'v') ORDER BY 3, 1, 2;

SELECT one.column_name AS name, CASE WHEN one.udt_schema IN ('public', 'pg_catalog') THEN format('%s', one.udt_name)
ELSE format('"%s"."%s"', one.udt_schema, one.udt_name) END AS kind, one.ordinal_position - 1 AS place,
col_description(CAST(CAST(format('%I.%I', CAST(one.table_schema AS TEXT), CAST(one.table_name AS TEXT)) AS REGCLASS)
AS OID), one.ordinal_position) AS said, ((column_default IS NULL) OR (lower(column_default) = 'null')) AND
(is_nullable = 'NO') AS required FROM information_schema.columns AS one WHERE one.table_schema !~
'^information_schema|catalog_history|pg_' ORDER BY one.table_name, 3;

WITH told AS (SELECT NULL AS role, one.schemaname AS schema, one.name,
pg_catalog.has_any_column_privilege(current_user, '"' || replace(one.schemaname, '"', '""') || '"."' ||
replace(one.name, '"', '""') || '"', 'update') AS update, pg_catalog.has_table_privilege(current_user, '"' ||
replace(one.schemaname, '"', '""') || '"."' || replace(one.name, '"', '""') || '"', 'SELECT') AS select FROM (SELECT
schemaname, tablename AS name FROM pg_catalog.pg_tables UNION SELECT schemaname, viewname FROM pg_views UNION SELECT
schemaname, matviewname FROM pg_matviews) AS one WHERE one.schemaname !~ '^pg_' AND
pg_catalog.has_schema_privilege(current_user, one.schemaname, 'USAGE')) SELECT told.* FROM told;

SELECT DATE_TRUNC('month', "main"."visits"."visit_ts") AS "visit_ts", COUNT(*) AS "count" FROM "main"."visits" GROUP
BY DATE_TRUNC('month', "main"."visits"."visit_ts") ORDER BY DATE_TRUNC('month', "main"."visits"."visit_ts") ASC;

SELECT "main"."persons"."county" AS "county", COUNT(*) AS "count" FROM "main"."persons" GROUP BY
"main"."persons"."county" ORDER BY "main"."persons"."county" ASC;

-- tool: DBeaver
SET application_name = 'DBeaver 24.1 - Main <people>';

SELECT version();

SELECT current_schema(), session_user;

SHOW search_path;

SELECT one.oid, one.* FROM pg_catalog.pg_database AS one WHERE datname = 'people';

SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs,absolute}'::text[]);

SELECT one.oid, one.*, said.description FROM pg_catalog.pg_namespace AS one LEFT OUTER JOIN
pg_catalog.pg_description AS said ON said.objoid = one.oid AND said.classoid = 'pg_namespace'::regclass ORDER BY
nspname;

SELECT kind.oid, kind.*, class.relkind, format_type(nullif(kind.typbasetype, 0), kind.typtypmod) AS base FROM
pg_catalog.pg_type AS kind LEFT OUTER JOIN pg_catalog.pg_class AS class ON class.oid = kind.typrelid WHERE
kind.typname IS NOT NULL AND (class.relkind IS NULL OR class.relkind = 'c');

SELECT class.oid, class.*, pg_catalog.pg_get_expr(class.relpartbound, class.oid) AS bound,
pg_catalog.pg_get_partkeydef(class.oid) AS key FROM pg_catalog.pg_class AS class WHERE class.relnamespace =
'main'::regnamespace AND class.relkind NOT IN ('i', 'I', 'c');

SELECT class.relname, field.*, pg_catalog.pg_get_expr(init.adbin, init.adrelid, true) AS init, said.description FROM
pg_catalog.pg_attribute AS field INNER JOIN pg_catalog.pg_class AS class ON field.attrelid = class.oid LEFT OUTER
JOIN pg_catalog.pg_attrdef AS init ON field.attrelid = init.adrelid AND field.attnum = init.adnum LEFT OUTER JOIN
pg_catalog.pg_description AS said ON class.oid = said.objoid AND field.attnum = said.objsubid WHERE NOT
field.attisdropped AND class.oid = 'persons'::regclass ORDER BY field.attnum;

SELECT one.oid, one.*, own.relname AS own FROM pg_catalog.pg_constraint AS one INNER JOIN pg_catalog.pg_class AS own
ON own.oid = one.conrelid WHERE one.conrelid = 'persons'::regclass ORDER BY one.oid;

SELECT one.*, one.indkey AS keys, class.relname, pg_catalog.pg_relation_size(one.indexrelid) AS size FROM
pg_catalog.pg_index AS one INNER JOIN pg_catalog.pg_class AS class ON class.oid = one.indexrelid WHERE one.indrelid
= 'persons'::regclass ORDER BY class.relname;

SELECT one.oid, one.* FROM pg_catalog.pg_roles AS one ORDER BY one.rolname;

SELECT pg_catalog.pg_get_viewdef('labels'::regclass, true);

SELECT class.oid, pg_catalog.pg_total_relation_size(class.oid) FROM pg_class AS class WHERE relnamespace = 2200;

SELECT x.* FROM main.counties x ORDER BY x.county LIMIT 200;

SELECT t.* FROM main.persons t LIMIT 200;

EXPLAIN (FORMAT XML, ANALYZE false) SELECT x.* FROM main.counties x;

-- tool: Tableau
SET DATESTYLE TO 'ISO';

SELECT space.nspname, class.relname FROM pg_catalog.pg_class class, pg_catalog.pg_namespace space WHERE relname LIKE
'%' AND class.relnamespace = space.oid AND relkind IN ('r', 'v', 'm', 'f', 'p') ORDER BY 1, 2;

SELECT CAST(1 AS INT) AS "COL";

SELECT "visits"."shop" AS "shop", SUM(1) AS "cnt:visits:ok" FROM "main"."visits" "visits" GROUP BY 1 ORDER BY 1;

SELECT SUM(1) AS "COL" FROM "main"."visits" "visits" HAVING (COUNT(1) > 0);

-- tool: Power BI
SELECT table_schema, table_name, table_type FROM INFORMATION_SCHEMA.tables WHERE table_schema NOT IN
('information_schema', 'pg_catalog') ORDER BY 1, 2;

SELECT COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, CASE WHEN (data_type LIKE '%unsigned%') THEN DATA_TYPE || '
unsigned' ELSE DATA_TYPE END AS DATA_TYPE FROM INFORMATION_SCHEMA.columns WHERE TABLE_NAME = 'visits' ORDER BY 2;

SELECT one.CONSTRAINT_SCHEMA || '_' || one.CONSTRAINT_NAME AS shown, two.COLUMN_NAME FROM
INFORMATION_SCHEMA.table_constraints one INNER JOIN INFORMATION_SCHEMA.key_column_usage two ON one.CONSTRAINT_NAME =
two.CONSTRAINT_NAME WHERE one.CONSTRAINT_TYPE IN ('PRIMARY KEY', 'UNIQUE');

SELECT character_set_name FROM INFORMATION_SCHEMA.character_sets;

SELECT "rows"."shop" AS "shop", count(1) AS "n" FROM (SELECT "shop" FROM "main"."visits" "$Table") "rows" GROUP BY
"shop" ORDER BY "shop";

-- tool: Looker
SET TIME ZONE 'UTC';

SELECT pg_backend_pid() IS NOT NULL;

SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'main' UNION SELECT schemaname,
viewname FROM pg_views WHERE schemaname = 'main' ORDER BY 1, 2;

SELECT DATE(visits.visit_ts) AS "visits.date", COUNT(*) AS "visits.count" FROM main.visits AS visits WHERE
(((visits.visit_ts) >= (TIMESTAMP '2024-02-01') AND (visits.visit_ts) < (TIMESTAMP '2024-03-01'))) GROUP BY 1 ORDER
BY 1 DESC FETCH NEXT 500 ROWS ONLY;
