-- What BI tools that cannot be installed ask: the same catalogs, columns, functions and shapes, written here.
-- DBeaver, Metabase, Grafana, Redash, and Npgsql, which Power BI uses: by their sources. Power BI's lists and the first
-- questions of Tableau: by the parts of published logs that could be read. Looker, and the charts of Tableau and Power
-- BI: as they are known to be, without a source at hand.

-- tool: Grafana
SELECT current_setting('server_version_num')::int / 100 AS version;

SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';

SELECT one.schema_name AS name FROM information_schema.schemata AS one WHERE one.schema_name NOT IN
('information_schema', 'pg_catalog', 'pg_toast') ORDER BY one.schema_name;

SELECT quote_ident(one.table_name) AS shown FROM information_schema.tables AS one WHERE quote_ident(one.table_schema)
= 'main' ORDER BY 1;

SELECT CASE WHEN quote_ident(one.table_schema) IN ( SELECT CASE WHEN trim(part[at]) = '"$user"' THEN user ELSE
trim(part[at]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS at,
string_to_array(current_setting('search_path'), ',') AS part) THEN quote_ident(one.table_name) ELSE
quote_ident(one.table_schema) || '.' || quote_ident(one.table_name) END AS shown FROM information_schema.tables AS one
WHERE one.table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY 1;

SELECT quote_ident(one.column_name) AS shown, one.data_type FROM information_schema.columns AS one WHERE CASE WHEN
array_length(parse_ident('persons'), 1) = 2 THEN quote_ident(one.table_schema) = (parse_ident('persons'))[1] ELSE
quote_ident(one.table_name) = 'persons' AND quote_ident(one.table_schema) IN ( SELECT CASE WHEN trim(part[at]) =
'"$user"' THEN user ELSE trim(part[at]) END FROM
generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS at,
string_to_array(current_setting('search_path'), ',') AS part) END;

SELECT floor(extract(epoch FROM visit_ts) / 3600) * 3600 AS time, count(*) AS n FROM visits WHERE visit_ts BETWEEN
'2024-02-01T00:00:00Z' AND '2024-03-01T00:00:00Z' GROUP BY 1 ORDER BY 1;

SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN
('information_schema','pg_catalog','_timescaledb_cache') ORDER BY CASE WHEN quote_ident(table_schema) IN ( SELECT CASE
WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM
generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
string_to_array(current_setting('search_path'),',') s ) THEN 0 ELSE 1 END, 1;

SELECT visit_ts AS "time", amount FROM visits WHERE visit_ts BETWEEN '2024-02-01T00:00:00Z' AND
'2024-02-08T12:34:56.789Z' ORDER BY 1 LIMIT 50;

SELECT floor(extract(epoch from visit_ts)/86400)*86400 AS "time", county AS "metric", count(*) AS "value" FROM persons
WHERE visit_ts BETWEEN '2024-02-01T00:00:00Z' AND '2024-03-01T12:34:56.789Z' GROUP BY 1, 2 ORDER BY 1, 2;

SELECT floor(extract(epoch from visit_ts)/3600)*3600 AS "time", avg(amount) AS "value" FROM visits WHERE visit_ts
BETWEEN '2024-02-01T00:00:00Z' AND '2024-03-01T12:34:56.789Z' GROUP BY 1 ORDER BY 1;

SELECT extract(epoch from visit_ts) as "time", amount FROM visits WHERE extract(epoch from visit_ts) >= 1706745600 AND
extract(epoch from visit_ts) <= 1707350400 ORDER BY 1;

SELECT count(*) FROM persons WHERE extract(epoch from visit_ts) >= 1706745600 AND extract(epoch from visit_ts) <=
1707350400;

SELECT floor((extract(epoch from visit_ts))/86400)*86400 AS "time", count(*) FROM persons GROUP BY 1 ORDER BY 1 LIMIT
50;

SELECT date_trunc('day', visit_ts) AS "time", count(id) AS "n" FROM persons WHERE visit_ts >= '2024-02-01T00:00:00Z'
AND visit_ts < '2024-03-01T00:00:00Z' GROUP BY "time" ORDER BY "time";

-- tool: Redash
SELECT space.nspname AS table_schema, class.relname AS table_name, field.attname AS column_name, NULL AS data_type
FROM pg_class AS class JOIN pg_namespace AS space ON class.relnamespace = space.oid AND space.nspname NOT IN
('pg_catalog', 'information_schema') AND has_schema_privilege(space.nspname, 'USAGE') JOIN pg_attribute AS field ON
field.attrelid = class.oid AND field.attnum > 0 AND NOT field.attisdropped WHERE class.relkind = 'm' AND
has_table_privilege(quote_ident(space.nspname) || '.' || quote_ident(class.relname), 'SELECT') UNION SELECT
one.table_schema, one.table_name, one.column_name, one.data_type FROM information_schema.columns AS one WHERE
one.table_schema NOT IN ('information_schema', 'pg_catalog') AND has_table_privilege(quote_ident(one.table_schema) ||
'.' || quote_ident(one.table_name), 'SELECT');

SELECT shop, sum(amount) AS amount FROM visits GROUP BY shop ORDER BY shop;

SELECT space.nspname AS table_schema, class.relname AS table_name, field.attname AS column_name, NULL AS data_type
FROM pg_class class JOIN pg_namespace space ON class.relnamespace = space.oid AND space.nspname NOT IN ('pg_catalog',
'information_schema') JOIN pg_attribute field ON field.attrelid = class.oid AND field.attnum > 0 AND NOT
field.attisdropped WHERE class.relkind = 'm' AND has_table_privilege(quote_ident(space.nspname) || '.' ||
quote_ident(class.relname), 'select') AND has_schema_privilege(space.nspname, 'usage') UNION SELECT table_schema,
table_name, column_name, data_type FROM information_schema.columns WHERE table_schema NOT IN ('pg_catalog',
'information_schema') AND has_table_privilege(quote_ident(table_schema) || '.' || quote_ident(table_name), 'select')
AND has_schema_privilege(table_schema, 'usage');

-- tool: Metabase
show timezone;

SELECT space.nspname, kind.typname FROM pg_type AS kind JOIN pg_namespace AS space ON space.oid = kind.typnamespace
WHERE kind.oid IN (SELECT DISTINCT enumtypid FROM pg_enum);

SELECT "space"."nspname" AS "schema", "class"."relname" AS "name", CASE "class"."relkind" WHEN 'r' THEN 'TABLE' WHEN
'v' THEN 'VIEW' ELSE NULL END AS "kind", "said"."description", "told"."n_live_tup" FROM "pg_catalog"."pg_class" AS
"class" INNER JOIN "pg_catalog"."pg_namespace" AS "space" ON "class"."relnamespace" = "space"."oid" LEFT JOIN
"pg_catalog"."pg_description" AS "said" ON ("class"."oid" = "said"."objoid") AND ("said"."objsubid" = 0) AND
("said"."classoid" = 'pg_class'::regclass) LEFT JOIN "pg_stat_user_tables" AS "told" ON ("space"."nspname" =
"told"."schemaname") AND ("class"."relname" = "told"."relname") WHERE ("space"."nspname" !~ '^pg_') AND class.relkind
IN ('r', 'p', 'v') ORDER BY 3, 1, 2;

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

SELECT "space"."nspname" AS "schema", "class"."relname" AS "name", CASE "class"."relkind" WHEN 'r' THEN 'TABLE' WHEN
'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE
NULL END AS "type", "said"."description" AS "description", "told"."n_live_tup" AS "estimated_row_count" FROM
"pg_catalog"."pg_class" AS "class" INNER JOIN "pg_catalog"."pg_namespace" AS "space" ON "class"."relnamespace" =
"space"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "said" ON ("class"."oid" = "said"."objoid") AND
("said"."objsubid" = 0) AND ("said"."classoid" = 'pg_class'::regclass) LEFT JOIN "pg_stat_user_tables" AS "told" ON
("space"."nspname" = "told"."schemaname") AND ("class"."relname" = "told"."relname") WHERE ("class"."relnamespace" =
"space"."oid") AND ("space"."nspname" !~ '^pg_') AND ("space"."nspname" <> 'information_schema') AND class.relkind in
('r', 'p', 'v', 'f', 'm') AND ("space"."nspname" IN ('main')) ORDER BY "type" ASC, "schema" ASC, "name" ASC;

SELECT "class"."column_name" AS "name", CASE WHEN "class"."udt_schema" IN ('public', 'pg_catalog') THEN FORMAT('%s',
"class"."udt_name") ELSE FORMAT('"%s"."%s"', "class"."udt_schema", "class"."udt_name") END AS "database-type",
"class"."ordinal_position" - 1 AS "database-position", "class"."table_schema" AS "table-schema", "class"."table_name"
AS "table-name", "first"."column_name" IS NOT NULL AS "pk?", COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I',
CAST("class"."table_schema" AS TEXT), CAST("class"."table_name" AS TEXT)) AS REGCLASS) AS OID),
"class"."ordinal_position") AS "field-comment", (("column_default" IS NULL) OR (LOWER("column_default") = 'null')) AND
("is_nullable" = 'NO') AND NOT ((("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%')) OR
("is_identity" <> 'NO')) AS "database-required", (("column_default" IS NOT NULL) AND ("column_default" LIKE
'%nextval(%')) OR ("is_identity" <> 'NO') AS "database-is-auto-increment" FROM "information_schema"."columns" AS
"class" LEFT JOIN (SELECT "held"."table_schema", "held"."table_name", "named"."column_name" FROM
"information_schema"."table_constraints" AS "held" INNER JOIN "information_schema"."key_column_usage" AS "named" ON
("held"."constraint_name" = "named"."constraint_name") AND ("held"."table_schema" = "named"."table_schema") AND
("held"."table_name" = "named"."table_name") WHERE "held"."constraint_type" = 'PRIMARY KEY') AS "first" ON
("class"."table_schema" = "first"."table_schema") AND ("class"."table_name" = "first"."table_name") AND
("class"."column_name" = "first"."column_name") WHERE class.table_schema !~ '^information_schema|catalog_history|pg_'
AND ("class"."table_schema" IN ('main')) UNION ALL SELECT "field"."attname" AS "name", CASE WHEN "of"."nspname" IN
('public', 'pg_catalog') THEN FORMAT('%s', "kind"."typname") ELSE FORMAT('"%s"."%s"', "of"."nspname",
"kind"."typname") END AS "database-type", "field"."attnum" - 1 AS "database-position", "space"."nspname" AS
"table-schema", "class"."relname" AS "table-name", FALSE AS "pk?", NULL AS "field-comment", FALSE AS
"database-required", FALSE AS "database-is-auto-increment" FROM "pg_catalog"."pg_class" AS "class" INNER JOIN
"pg_catalog"."pg_namespace" AS "space" ON "space"."oid" = "class"."relnamespace" INNER JOIN
"pg_catalog"."pg_attribute" AS "field" ON "field"."attrelid" = "class"."oid" INNER JOIN "pg_catalog"."pg_type" AS
"kind" ON "kind"."oid" = "field"."atttypid" INNER JOIN "pg_catalog"."pg_namespace" AS "of" ON "of"."oid" =
"kind"."typnamespace" WHERE ("class"."relkind" = 'm') AND ("field"."attnum" >= 1) AND ("space"."nspname" IN ('main'))
ORDER BY "table-schema", "table-name", "database-position";

SELECT "space"."nspname" AS "fk-table-schema", "own"."relname" AS "fk-table-name", "field"."attname" AS
"fk-column-name", "of"."nspname" AS "pk-table-schema", "other"."relname" AS "pk-table-name", "target"."attname" AS
"pk-column-name" FROM "pg_constraint" AS "class" INNER JOIN "pg_class" AS "own" ON "class"."conrelid" = "own"."oid"
INNER JOIN "pg_namespace" AS "space" ON "class"."connamespace" = "space"."oid" INNER JOIN "pg_attribute" AS "field" ON
"class"."conrelid" = "field"."attrelid" INNER JOIN "pg_class" AS "other" ON "class"."confrelid" = "other"."oid" INNER
JOIN "pg_namespace" AS "of" ON "other"."relnamespace" = "of"."oid" INNER JOIN "pg_attribute" AS "target" ON
"class"."confrelid" = "target"."attrelid" WHERE space.nspname !~ '^information_schema|catalog_history|pg_' AND
("class"."contype" = 'f'::char) AND ("field"."attnum" = ANY(class.conkey)) AND ("target"."attnum" =
ANY(class.confkey)) AND ("space"."nspname" IN ('main')) ORDER BY "fk-table-schema", "fk-table-name";

SELECT "inner"."table-schema", "inner"."table-name", TRIM(BOTH '"' FROM PG_CATALOG.PG_GET_INDEXDEF("inner"."ci_oid",
"inner"."pos", FALSE)) AS "field-name" FROM (SELECT "space"."nspname" AS "table-schema", "own"."relname" AS
"table-name", "held"."oid" AS "ci_oid", (INFORMATION_SCHEMA._PG_EXPANDARRAY("index"."indkey")).n AS "pos" FROM
"pg_catalog"."pg_class" AS "own" INNER JOIN "pg_catalog"."pg_namespace" AS "space" ON "own"."relnamespace" =
"space"."oid" INNER JOIN "pg_catalog"."pg_index" AS "index" ON "own"."oid" = "index"."indrelid" INNER JOIN
"pg_catalog"."pg_class" AS "held" ON "held"."oid" = "index"."indexrelid" WHERE
(PG_CATALOG.PG_GET_EXPR("index"."indpred", "index"."indrelid") IS NULL) AND space.nspname !~
'^information_schema|catalog_history|pg_') AS "inner" WHERE "inner"."pos" = 1;

SET SESSION TIMEZONE TO 'UTC';

SELECT COUNT(*) AS "count" FROM "main"."persons";

SELECT CAST("main"."persons"."visit_ts" AS DATE) AS "visit_ts", COUNT(*) AS "count" FROM "main"."persons" GROUP BY
CAST("main"."persons"."visit_ts" AS DATE) ORDER BY CAST("main"."persons"."visit_ts" AS DATE) ASC;

SELECT DATE_TRUNC('month', "main"."persons"."visit_ts") AS "visit_ts", COUNT(*) AS "count",
AVG("main"."persons"."income") AS "avg" FROM "main"."persons" WHERE ("main"."persons"."visit_ts" >=
DATE_TRUNC('month', (NOW() + INTERVAL '-36 month'))) AND ("main"."persons"."visit_ts" < DATE_TRUNC('month', NOW()))
GROUP BY DATE_TRUNC('month', "main"."persons"."visit_ts") ORDER BY DATE_TRUNC('month', "main"."persons"."visit_ts")
ASC;

SELECT CAST(DATE_TRUNC('month', "main"."visits"."day") AS date) AS "day", SUM("main"."visits"."amount") AS "sum" FROM
"main"."visits" GROUP BY CAST(DATE_TRUNC('month', "main"."visits"."day") AS date) ORDER BY CAST(DATE_TRUNC('month',
"main"."visits"."day") AS date) ASC;

SELECT CAST(DATE_TRUNC('month', "main"."persons"."born") AS date) AS "born", COUNT(*) AS "count" FROM "main"."persons"
GROUP BY CAST(DATE_TRUNC('month', "main"."persons"."born") AS date) ORDER BY CAST(DATE_TRUNC('month',
"main"."persons"."born") AS date) ASC;

SELECT (CAST(DATE_TRUNC('week', CAST("main"."visits"."visit_ts" AS timestamp) + INTERVAL '1 day') AS timestamp) +
INTERVAL '-1 day') AS "w", COUNT(*) AS "count" FROM "main"."visits" GROUP BY 1 ORDER BY 1;

SELECT (DATE_TRUNC('week', ("main"."persons"."visit_ts" + INTERVAL '1 day')) + INTERVAL '-1 day') AS "visit_ts",
COUNT(*) AS "count" FROM "main"."persons" GROUP BY (DATE_TRUNC('week', ("main"."persons"."visit_ts" + INTERVAL
'1 day')) + INTERVAL '-1 day') ORDER BY (DATE_TRUNC('week', ("main"."persons"."visit_ts" + INTERVAL '1 day')) +
INTERVAL '-1 day') ASC;

SELECT CAST(EXTRACT(hour FROM "main"."persons"."visit_ts") AS integer) AS "visit_ts", COUNT(*) AS "count" FROM
"main"."persons" GROUP BY CAST(EXTRACT(hour FROM "main"."persons"."visit_ts") AS integer) ORDER BY CAST(EXTRACT(hour
FROM "main"."persons"."visit_ts") AS integer) ASC;

SELECT CAST(EXTRACT(hour FROM "main"."visits"."visit_ts") AS integer) AS "visit_ts", COUNT(*) AS "count" FROM
"main"."visits" GROUP BY CAST(EXTRACT(hour FROM "main"."visits"."visit_ts") AS integer) ORDER BY CAST(EXTRACT(hour
FROM "main"."visits"."visit_ts") AS integer) ASC;

SELECT FLOOR((("main"."persons"."income" - 0.0) / 500.0)) * 500.0 + 0.0 AS "income", COUNT(*) AS "count" FROM
"main"."persons" GROUP BY FLOOR((("main"."persons"."income" - 0.0) / 500.0)) * 500.0 + 0.0 ORDER BY
FLOOR((("main"."persons"."income" - 0.0) / 500.0)) * 500.0 + 0.0 ASC;

SELECT FLOOR((("main"."visits"."amount" - 0.0) / 500.0)) * 500.0 + 0.0 AS "amount", COUNT(*) AS "count" FROM
"main"."visits" GROUP BY FLOOR((("main"."visits"."amount" - 0.0) / 500.0)) * 500.0 + 0.0 ORDER BY
FLOOR((("main"."visits"."amount" - 0.0) / 500.0)) * 500.0 + 0.0 ASC;

SELECT PERCENTILE_CONT(0.5) within group (order by "main"."visits"."shop") AS "median" FROM "main"."visits";

SELECT PERCENTILE_CONT(0.5) within group (order by "main"."persons"."income") AS "median" FROM "main"."persons";

SELECT "source"."visit_ts" AS "visit_ts", "source"."count" AS "count" FROM (SELECT DATE_TRUNC('month',
"main"."persons"."visit_ts") AS "visit_ts", COUNT(*) AS "count" FROM "main"."persons" GROUP BY DATE_TRUNC('month',
"main"."persons"."visit_ts") ORDER BY DATE_TRUNC('month', "main"."persons"."visit_ts") ASC) AS "source" WHERE
"source"."count" > 10 LIMIT 1048575;

SELECT "main"."persons"."county" AS "county", "Counties"."label" AS "Counties__label", COUNT(*) AS "count" FROM
"main"."persons" LEFT JOIN "main"."counties" AS "Counties" ON "main"."persons"."county" = "Counties"."county" GROUP BY
"main"."persons"."county", "Counties"."label" ORDER BY "main"."persons"."county" ASC, "Counties"."label" ASC;

SELECT SUM(CASE WHEN "main"."persons"."income" > 1500 THEN 1 ELSE 0.0 END) AS "space" FROM "main"."persons";

SELECT COUNT(DISTINCT "main"."persons"."county") AS "count" FROM "main"."persons";

SELECT "main"."counties"."county" AS "county", SUBSTRING("main"."counties"."label", 1, 1234) AS "label" FROM
"main"."counties" LIMIT 10000;

SELECT TRUE AS "_" FROM "main"."persons" WHERE 1 <> 1 LIMIT 0;

SELECT TRUE AS "_" FROM "main"."counties" WHERE 1 <> 1 LIMIT 0;

SELECT "main"."counties"."county" AS "county" FROM "main"."counties" GROUP BY "main"."counties"."county" ORDER BY
"main"."counties"."county" ASC LIMIT 1000;

SELECT "main"."persons"."county" AS "county" FROM "main"."persons" GROUP BY "main"."persons"."county" ORDER BY
"main"."persons"."county" ASC LIMIT 1000;

-- tool: DBeaver
SET application_name = 'DBeaver 24.1 - Main <people>';

SELECT version();

SELECT current_schema(), session_user;

SHOW search_path;

SELECT one.oid, one.* FROM pg_catalog.pg_database AS one WHERE datname = 'people';

SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs,absolute}'::text[]);

SELECT one.oid, one.*, said.description FROM pg_catalog.pg_namespace AS one LEFT OUTER JOIN pg_catalog.pg_description
AS said ON said.objoid = one.oid AND said.classoid = 'pg_namespace'::regclass ORDER BY nspname;

SELECT kind.oid, kind.*, class.relkind, format_type(nullif(kind.typbasetype, 0), kind.typtypmod) AS base FROM
pg_catalog.pg_type AS kind LEFT OUTER JOIN pg_catalog.pg_class AS class ON class.oid = kind.typrelid WHERE
kind.typname IS NOT NULL AND (class.relkind IS NULL OR class.relkind = 'c');

SELECT class.oid, class.*, pg_catalog.pg_get_expr(class.relpartbound, class.oid) AS bound,
pg_catalog.pg_get_partkeydef(class.oid) AS key FROM pg_catalog.pg_class AS class WHERE class.relnamespace =
'main'::regnamespace AND class.relkind NOT IN ('i', 'I', 'c');

SELECT class.relname, field.*, pg_catalog.pg_get_expr(init.adbin, init.adrelid, true) AS init, said.description FROM
pg_catalog.pg_attribute AS field INNER JOIN pg_catalog.pg_class AS class ON field.attrelid = class.oid LEFT OUTER JOIN
pg_catalog.pg_attrdef AS init ON field.attrelid = init.adrelid AND field.attnum = init.adnum LEFT OUTER JOIN
pg_catalog.pg_description AS said ON class.oid = said.objoid AND field.attnum = said.objsubid WHERE NOT
field.attisdropped AND class.oid = 'persons'::regclass ORDER BY field.attnum;

SELECT one.oid, one.*, own.relname AS own FROM pg_catalog.pg_constraint AS one INNER JOIN pg_catalog.pg_class AS own
ON own.oid = one.conrelid WHERE one.conrelid = 'persons'::regclass ORDER BY one.oid;

SELECT one.*, one.indkey AS keys, class.relname, pg_catalog.pg_relation_size(one.indexrelid) AS size FROM
pg_catalog.pg_index AS one INNER JOIN pg_catalog.pg_class AS class ON class.oid = one.indexrelid WHERE one.indrelid =
'persons'::regclass ORDER BY class.relname;

SELECT one.oid, one.* FROM pg_catalog.pg_roles AS one ORDER BY one.rolname;

SELECT pg_catalog.pg_get_viewdef('labels'::regclass, true);

SELECT class.oid, pg_catalog.pg_total_relation_size(class.oid) FROM pg_class AS class WHERE relnamespace = 2200;

SELECT x.* FROM main.counties x ORDER BY x.county LIMIT 200;

SELECT t.* FROM main.persons t LIMIT 200;

EXPLAIN (FORMAT XML, ANALYZE false) SELECT x.* FROM main.counties x;

SELECT one.oid,one.* FROM pg_catalog.pg_database one WHERE 1 = 1 AND datallowconn AND NOT datistemplate OR one.datname
='people' ORDER BY one.datname;

SELECT current_schema(),session_user;

SET search_path = main, public;

SELECT * FROM pg_catalog.pg_enum WHERE 1<>1 LIMIT 1;

SELECT reltype FROM pg_catalog.pg_class WHERE 1<>1 LIMIT 1;

SELECT kind.oid,kind.*,class.relkind,format_type(nullif(kind.typbasetype, 0), kind.typtypmod) as base_type_name,
said.description FROM pg_catalog.pg_type kind LEFT OUTER JOIN pg_catalog.pg_type element ON element.oid=kind.typelem
LEFT OUTER JOIN pg_catalog.pg_class class ON class.oid=kind.typrelid LEFT OUTER JOIN pg_catalog.pg_description said ON
kind.oid=said.objoid WHERE kind.typname IS NOT NULL AND (class.relkind IS NULL OR class.relkind = 'c') AND
(element.typcategory IS NULL OR element.typcategory <> 'C');

SELECT space.oid,space.*,said.description FROM pg_catalog.pg_namespace space LEFT OUTER JOIN pg_catalog.pg_description
said ON said.objoid=space.oid AND said.objsubid=0 AND said.classoid='pg_namespace'::regclass ORDER BY nspname;

SELECT field.oid,field.*,said.description FROM pg_catalog.pg_roles field left join pg_catalog.pg_shdescription said on
field.oid = said.objoid ORDER BY field.rolname;

SELECT method.oid,method.* FROM pg_catalog.pg_am method ORDER BY method.oid;

SELECT class.contoencoding as encid,pg_catalog.pg_encoding_to_char(class.contoencoding) as encname FROM
pg_catalog.pg_conversion class GROUP BY class.contoencoding ORDER BY 2;

SELECT class.oid,class.* FROM pg_catalog.pg_collation class ORDER BY class.oid;

SELECT one.oid,one.* FROM pg_catalog.pg_language one ORDER BY one.oid;

SELECT one.oid,one.*,function.pronamespace as handler_schema_id FROM pg_catalog.pg_foreign_data_wrapper one LEFT OUTER
JOIN pg_catalog.pg_proc function ON function.oid=one.fdwhandler ORDER BY one.fdwname;

SELECT one.oid,one.* FROM pg_catalog.pg_foreign_server one ORDER BY one.srvname;

SELECT kind.oid,kind.*,pg_catalog.pg_tablespace_location(kind.oid) loc FROM pg_catalog.pg_tablespace kind ORDER BY
kind.oid;

SELECT name,default_version,installed_version,comment FROM pg_catalog.pg_available_extensions ORDER BY name;

SELECT one.*, said.description FROM pg_catalog.pg_event_trigger one LEFT OUTER JOIN pg_catalog.pg_description said ON
one."oid" = said.objoid;

SELECT extension.oid, listed.tbls, space.nspname as schema_name, extension.* FROM pg_catalog.pg_extension extension
join pg_namespace space on space.oid =extension.extnamespace left join ( select ARRAY_AGG(of.nspname || '.' ||
held.relname) tbls, oid_ext from ( select unnest(config.extconfig) oid , config.oid oid_ext from
pg_catalog.pg_extension config ) class join pg_class held on held.oid = class.oid join pg_namespace of on of.oid =
held.relnamespace group by oid_ext ) listed on listed.oid_ext = extension.oid ORDER BY extension.oid;

select * from pg_catalog.pg_settings;

SELECT class.oid,class.*,said.description,pg_catalog.pg_get_expr(class.relpartbound, class.oid) as partition_expr,
pg_catalog.pg_get_partkeydef(class.oid) as partition_key FROM pg_catalog.pg_class class LEFT OUTER JOIN
pg_catalog.pg_description said ON said.objoid=class.oid AND said.objsubid=0 AND said.classoid='pg_class'::regclass
WHERE class.relnamespace='main'::regnamespace AND class.relkind not in ('i','I','c');

SELECT class.relname,field.*,pg_catalog.pg_get_expr(init.adbin, init.adrelid, true) as
def_value,said.description,depends.objid FROM pg_catalog.pg_attribute field INNER JOIN pg_catalog.pg_class class ON
(field.attrelid=class.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef init ON (field.attrelid=init.adrelid AND field.attnum
= init.adnum) LEFT OUTER JOIN pg_catalog.pg_description said ON (class.oid=said.objoid AND field.attnum =
said.objsubid) LEFT OUTER JOIN pg_depend depends on depends.refobjid = field.attrelid AND depends.deptype = 'i' and
depends.refobjsubid = field.attnum and depends.classid = depends.refclassid WHERE NOT field.attisdropped AND
class.relkind not in ('i','I','c') AND class.oid='persons'::regclass ORDER BY field.attnum;

SELECT class.oid,class.*,kind.relname as tabrelname,other.relnamespace as refnamespace,said.description, case when
class.contype='c' then "substring"(pg_get_constraintdef(class.oid), 7) else null end consrc_copy FROM
pg_catalog.pg_constraint class INNER JOIN pg_catalog.pg_class kind ON kind.oid=class.conrelid LEFT OUTER JOIN
pg_catalog.pg_class other ON other.oid=class.confrelid LEFT OUTER JOIN pg_catalog.pg_description said ON
said.objoid=class.oid AND said.objsubid=0 AND said.classoid='pg_constraint'::regclass WHERE
class.conrelid='persons'::regclass ORDER BY class.oid;

SELECT index.*,index.indkey as keys,class.relname,class.relnamespace,class.relam,class.reltablespace,own.relname as
tabrelname,said.description,pg_catalog.pg_get_expr(index.indpred, index.indrelid) as
pred_expr,pg_catalog.pg_get_expr(index.indexprs, index.indrelid, true) as
expr,pg_catalog.pg_relation_size(index.indexrelid) as index_rel_size,pg_catalog.pg_stat_get_numscans(index.indexrelid)
as index_num_scans FROM pg_catalog.pg_index index INNER JOIN pg_catalog.pg_class class ON class.oid=index.indexrelid
INNER JOIN pg_catalog.pg_class own ON own.oid=index.indrelid LEFT OUTER JOIN pg_catalog.pg_description said ON
index.indexrelid=said.objoid WHERE index.indrelid='persons'::regclass ORDER BY class.relname;

select class.oid,pg_catalog.pg_total_relation_size(class.oid) as total_rel_size,pg_catalog.pg_relation_size(class.oid)
as rel_size FROM pg_class class WHERE class.relnamespace='main'::regnamespace;

SELECT function.oid as poid,function.*,pg_catalog.pg_get_expr(function.proargdefaults, 0) as
arg_defaults,said.description FROM pg_catalog.pg_proc function LEFT OUTER JOIN pg_catalog.pg_description said ON
said.objoid=function.oid and said.classoid='pg_proc'::regclass AND said.objsubid = 0 WHERE
function.pronamespace='main'::regnamespace ORDER BY function.proname;

SELECT function.oid AS proc_oid,function.proname AS proc_name,field.* FROM pg_catalog.pg_aggregate
field,pg_catalog.pg_proc function WHERE function.oid=field.aggfnoid AND function.pronamespace='main'::regnamespace
ORDER BY function.proname;

SELECT index.inhrelid relid, parent.relnamespace parent_ns, parent.oid parent_oid, index.inhseqno FROM
pg_catalog.pg_inherits index, pg_class child, pg_class parent WHERE child.oid=index.inhrelid AND
child.relnamespace='main'::regnamespace AND parent.oid=index.inhparent;

SELECT DISTINCT connamespace FROM pg_catalog.pg_constraint WHERE confrelid='persons'::regclass;

SELECT index.*,class.relnamespace FROM pg_catalog.pg_inherits index,pg_catalog.pg_class class WHERE
index.inhrelid='persons'::regclass AND class.oid=index.inhparent ORDER BY index.inhseqno;

SELECT one.oid,one.*,function.pronamespace as func_schema_id,said.description FROM pg_catalog.pg_trigger one LEFT
OUTER JOIN pg_catalog.pg_proc function ON function.oid=one.tgfoid LEFT OUTER JOIN pg_catalog.pg_description said ON
said.objoid=one.oid AND said.objsubid=0 WHERE one.tgrelid = 'persons'::regclass;

SELECT rule.oid,rule.*, pg_get_ruledef(rule.oid) AS definition FROM pg_rewrite rule WHERE
rule.ev_class='labels'::regclass AND rule.rulename <> '_RETURN'::name;

SELECT * FROM pg_catalog.pg_auth_members WHERE member=10;

SELECT * FROM information_schema.table_privileges WHERE table_catalog='people' AND grantee='ana';

SELECT * FROM information_schema.routine_privileges WHERE specific_catalog='people' AND grantee='ana';

SELECT * FROM ( SELECT DISTINCT relnamespace, relacl, relname, relkind, (aclexplode(relacl)).grantee as granteeI FROM
pg_class WHERE relacl IS NOT NULL AND relnamespace IN ( SELECT oid FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' AND
nspname != 'information_schema') UNION ALL SELECT DISTINCT space.oid AS relnamespace, nspacl AS relacl, space.nspname
AS relname, cast('C' as "char") AS relkind, (aclexplode(nspacl)).grantee as granteeI FROM pg_catalog.pg_namespace
space WHERE space.nspacl IS NOT NULL ) AS granted WHERE granted.granteeI=10 AND granted.relkind IN('S', 'm', 'C');

SELECT pg_get_viewdef('labels'::regclass, true);

SELECT class.relname,row_number() OVER (ORDER BY field.attnum) as attnum,field.*,pg_catalog.pg_get_expr(init.adbin,
init.adrelid, true) as def_value,said.description FROM pg_catalog.pg_attribute field INNER JOIN pg_catalog.pg_class
class ON (field.attrelid=class.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef init ON (field.attrelid=init.adrelid AND
field.attnum = init.adnum) LEFT OUTER JOIN pg_catalog.pg_description said ON (class.oid=said.objoid AND field.attnum =
said.objsubid) WHERE field.attnum > 0 AND NOT field.attisdropped AND class.oid='kinds'::regclass ORDER BY field.attnum;

SELECT concat(class.conname, ' ', pg_catalog.pg_get_constraintdef(oid, true)) FROM pg_catalog.pg_constraint class
WHERE contypid = 25;

SELECT extension.enumlabel FROM pg_catalog.pg_enum extension WHERE extension.enumtypid=25 ORDER BY
extension.enumsortorder;

SELECT one.datname,pg_database_size(one.oid) FROM pg_catalog.pg_database one;

SELECT activity.* FROM pg_catalog.pg_stat_activity activity;

SELECT (SELECT count(*) AS "Active" FROM pg_catalog.pg_stat_activity activity WHERE state='active'), (SELECT count(*)
AS "Idle" FROM pg_catalog.pg_stat_activity activity WHERE state='idle'), (SELECT count(*) AS "Total" FROM
pg_catalog.pg_stat_activity activity WHERE state IS NOT NULL);

SELECT one.* FROM main.visits one WHERE shop = 3 ORDER BY one.visit_ts DESC LIMIT 200;

SELECT count(*) FROM ( SELECT one.* FROM main.visits one ) counted;

SELECT count(*) FROM main.persons one;

EXPLAIN (FORMAT XML) SELECT county, count(*) FROM main.persons GROUP BY county;

EXPLAIN (FORMAT XML, ANALYSE) SELECT county FROM main.counties;

SELECT said.oid, said.datname FROM pg_catalog.pg_database said;

-- tool: Tableau
SET DATESTYLE TO 'ISO';

SELECT space.nspname, class.relname FROM pg_catalog.pg_class class, pg_catalog.pg_namespace space WHERE relname LIKE
'%' AND class.relnamespace = space.oid AND relkind IN ('r', 'v', 'm', 'f', 'p') ORDER BY 1, 2;

SELECT CAST(1 AS INT) AS "COL";

SELECT "visits"."shop" AS "shop", SUM(1) AS "cnt:visits:ok" FROM "main"."visits" "visits" GROUP BY 1 ORDER BY 1;

SELECT SUM(1) AS "COL" FROM "main"."visits" "visits" HAVING (COUNT(1) > 0);

show "lc_collate";

SHOW lc_ctype;

SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;

SHOW TRANSACTION ISOLATION LEVEL;

BEGIN READ ONLY;

ROLLBACK;

SET extra_float_digits = 3;

CREATE LOCAL TEMPORARY TABLE "#Tableau_1_1_Connect" ("COL" INTEGER) ON COMMIT PRESERVE ROWS;

SELECT "visits"."shop" AS "shop", CAST(TRUNC(EXTRACT(YEAR FROM "visits"."visit_ts")) AS INTEGER) AS "yr",
SUM("visits"."amount") AS "sum" FROM "main"."visits" "visits" GROUP BY 1, 2 ORDER BY 1, 2;

SELECT DATE_TRUNC('MONTH', CAST("visits"."visit_ts" AS TIMESTAMP)) AS "tmn:visit_ts:ok", COUNT(DISTINCT
"visits"."shop") AS "ctd" FROM "main"."visits" "visits" WHERE (("visits"."visit_ts" >= (TIMESTAMP
'2024-02-01 00:00:00.000')) AND ("visits"."visit_ts" < (TIMESTAMP '2024-06-01 00:00:00.000'))) GROUP BY 1 ORDER BY 1;

SELECT DATE_TRUNC('MONTH', CAST("persons"."visit_ts" AS TIMESTAMP)) AS "tmn:visit_ts:ok", SUM(1) AS "cnt" FROM
"main"."persons" "persons" WHERE (("persons"."visit_ts" >= (TIMESTAMP '2024-02-01 00:00:00.000')) AND
("persons"."visit_ts" < (TIMESTAMP '2024-06-01 00:00:00.000'))) GROUP BY 1;

SELECT "persons"."county" AS "county", AVG(CAST("persons"."income" AS DOUBLE PRECISION)) AS "avg:income:ok" FROM
"main"."persons" "persons" GROUP BY 1;

SELECT CAST(EXTRACT(MONTH FROM "persons"."visit_ts") AS INTEGER) AS "mn", SUM("persons"."income") AS "s" FROM
"main"."persons" "persons" GROUP BY 1;

SELECT MIN("visits"."visit_ts") AS "lo", MAX("visits"."visit_ts") AS "hi" FROM "main"."visits" "visits" HAVING
(COUNT(1) > 0);

-- tool: Power BI
SELECT table_schema, table_name, table_type FROM INFORMATION_SCHEMA.tables WHERE table_schema NOT IN
('information_schema', 'pg_catalog') ORDER BY 1, 2;

SELECT COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, CASE WHEN (data_type LIKE '%unsigned%') THEN DATA_TYPE ||
' unsigned' ELSE DATA_TYPE END AS DATA_TYPE FROM INFORMATION_SCHEMA.columns WHERE TABLE_NAME = 'visits' ORDER BY 2;

SELECT one.CONSTRAINT_SCHEMA || '_' || one.CONSTRAINT_NAME AS shown, two.COLUMN_NAME FROM
INFORMATION_SCHEMA.table_constraints one INNER JOIN INFORMATION_SCHEMA.key_column_usage two ON one.CONSTRAINT_NAME =
two.CONSTRAINT_NAME WHERE one.CONSTRAINT_TYPE IN ('PRIMARY KEY', 'UNIQUE');

SELECT character_set_name FROM INFORMATION_SCHEMA.character_sets;

SELECT "rows"."shop" AS "shop", count(1) AS "n" FROM (SELECT "shop" FROM "main"."visits" "$Table") "rows" GROUP BY
"shop" ORDER BY "shop";

SELECT version();

SELECT space.nspname, found.oid, found.typname, found.typtype, found.typnotnull, found.elemtypoid FROM ( SELECT
kind.oid, kind.typnamespace, kind.typname, kind.typtype, kind.typrelid, kind.typnotnull, kind.relkind, element.oid AS
elemtypoid, element.typname AS elemtypname, of.relkind AS elemrelkind, CASE WHEN reads.proname='array_recv' THEN 'a'
ELSE element.typtype END AS elemtyptype FROM ( SELECT kind.oid, typnamespace, typname, typrelid, typnotnull, relkind,
typelem AS elemoid, CASE WHEN function.proname='array_recv' THEN 'a' ELSE kind.typtype END AS typtype, CASE WHEN
function.proname='array_recv' THEN kind.typelem WHEN kind.typtype='r' THEN rngsubtype WHEN kind.typtype='m' THEN
(SELECT rngtypid FROM pg_range WHERE rngmultitypid = kind.oid) WHEN kind.typtype='d' THEN kind.typbasetype END AS
elemtypoid FROM pg_type AS kind LEFT JOIN pg_class AS class ON (class.oid = kind.typrelid) LEFT JOIN pg_proc AS
function ON function.oid = kind.typreceive LEFT JOIN pg_range ON (pg_range.rngtypid = kind.oid) ) AS kind LEFT JOIN
pg_type AS element ON element.oid = elemtypoid LEFT JOIN pg_class AS of ON (of.oid = element.typrelid) LEFT JOIN
pg_proc AS reads ON reads.oid = element.typreceive ) AS found JOIN pg_namespace AS space ON (space.oid = typnamespace)
WHERE typtype IN ('b', 'r', 'm', 'e', 'd') OR (typtype = 'c' AND relkind='c') OR (typtype = 'p' AND typname IN
('record', 'void')) OR (typtype = 'a' AND ( elemtyptype IN ('b', 'r', 'm', 'e', 'd') OR (elemtyptype = 'p' AND
elemtypname IN ('record', 'void')) OR (elemtyptype = 'c' AND elemrelkind='c') )) ORDER BY CASE WHEN typtype IN ('b',
'e', 'p') THEN 0 WHEN typtype = 'r' THEN 1 WHEN typtype = 'm' THEN 2 WHEN typtype = 'c' THEN 3 WHEN typtype = 'd' AND
elemtyptype <> 'a' THEN 4 WHEN typtype = 'a' THEN 5 WHEN typtype = 'd' AND elemtyptype = 'a' THEN 6 END;

SELECT kind.oid, field.attname, field.atttypid FROM pg_type AS kind JOIN pg_namespace AS space ON (space.oid =
kind.typnamespace) JOIN pg_class AS class ON (class.oid = kind.typrelid) JOIN pg_attribute AS field ON (field.attrelid
= kind.typrelid) WHERE (kind.typtype = 'c' AND class.relkind='c') AND attnum > 0 AND NOT attisdropped ORDER BY
kind.oid, field.attnum;

SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid=enumtypid ORDER BY oid, enumsortorder;

DISCARD ALL;

SELECT space.nspname, kind.typname, kind.oid, kind.typrelid, kind.typbasetype, CASE WHEN pg_proc.proname='array_recv'
THEN 'a' ELSE kind.typtype END AS type, CASE WHEN pg_proc.proname='array_recv' THEN kind.typelem WHEN kind.typtype='r'
THEN rngsubtype ELSE 0 END AS elemoid, CASE WHEN pg_proc.proname IN ('array_recv','oidvectorrecv') THEN 3 WHEN
kind.typtype='r' THEN 2 WHEN kind.typtype='d' THEN 1 ELSE 0 END AS ord FROM pg_type AS kind JOIN pg_namespace AS space
ON (space.oid = kind.typnamespace) JOIN pg_proc ON pg_proc.oid = kind.typreceive LEFT OUTER JOIN pg_class AS class ON
(class.oid = kind.typrelid) LEFT OUTER JOIN pg_type AS element ON (element.oid = kind.typelem) LEFT OUTER JOIN
pg_class AS of ON (of.oid = element.typrelid) LEFT OUTER JOIN pg_range ON (pg_range.rngtypid = kind.oid) WHERE
kind.typtype IN ('b', 'r', 'e', 'd') OR (kind.typtype = 'c' AND class.relkind='c') OR (pg_proc.proname='array_recv'
AND ( element.typtype IN ('b', 'r', 'e', 'd') OR (element.typtype = 'p' AND element.typname IN ('record', 'void')) OR
(element.typtype = 'c' AND of.relkind='c') )) OR (kind.typtype = 'p' AND kind.typname IN ('record', 'void')) ORDER BY
ord;

select target.TABLE_SCHEMA AS PK_TABLE_SCHEMA, target.TABLE_NAME AS PK_TABLE_NAME, target.COLUMN_NAME as
PK_COLUMN_NAME, field.COLUMN_NAME as FK_COLUMN_NAME, field.ORDINAL_POSITION as ORDINAL, held.CONSTRAINT_SCHEMA || '_'
|| 'users' || '_' || target.TABLE_NAME || '_' || held.CONSTRAINT_NAME as FK_NAME from (select distinct
constraint_catalog, constraint_schema, unique_constraint_schema, constraint_name, unique_constraint_name from
INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) held inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE field on
held.CONSTRAINT_SCHEMA = field.CONSTRAINT_SCHEMA and held.CONSTRAINT_NAME = field.CONSTRAINT_NAME inner join
INFORMATION_SCHEMA.KEY_COLUMN_USAGE target on held.UNIQUE_CONSTRAINT_SCHEMA = target.CONSTRAINT_SCHEMA and
held.UNIQUE_CONSTRAINT_NAME = target.CONSTRAINT_NAME where field.TABLE_SCHEMA = 'main' and field.TABLE_NAME = 'visits'
and target.ORDINAL_POSITION = field.ORDINAL_POSITION order by FK_NAME, field.ORDINAL_POSITION;

select one.CONSTRAINT_SCHEMA || '_' || one.CONSTRAINT_NAME as INDEX_NAME, two.COLUMN_NAME, two.ORDINAL_POSITION, case
when one.CONSTRAINT_TYPE = 'PRIMARY KEY' then 'Y' else 'N' end as PRIMARY_KEY from
INFORMATION_SCHEMA.table_constraints one inner join INFORMATION_SCHEMA.key_column_usage two on one.CONSTRAINT_SCHEMA =
two.CONSTRAINT_SCHEMA and one.CONSTRAINT_NAME = two.CONSTRAINT_NAME and one.TABLE_SCHEMA = two.TABLE_SCHEMA and
one.TABLE_NAME = two.TABLE_NAME where one.TABLE_SCHEMA = 'main' and one.TABLE_NAME = 'visits' and one.CONSTRAINT_TYPE
in ('PRIMARY KEY', 'UNIQUE') order by one.CONSTRAINT_SCHEMA || '_' || one.CONSTRAINT_NAME, two.TABLE_SCHEMA,
two.TABLE_NAME, two.ORDINAL_POSITION;

select COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, case when (data_type like '%unsigned%') then DATA_TYPE ||
' unsigned' else DATA_TYPE end as DATA_TYPE from INFORMATION_SCHEMA.columns where TABLE_SCHEMA = 'main' and TABLE_NAME
= 'visits' order by TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION;

select character_set_name from INFORMATION_SCHEMA.character_sets;

select "$Table"."county" as "county", "$Table"."label" as "label" from "main"."counties" "$Table" limit 1000;

select * from (select * from "main"."counties") "$Table" limit 200;

select "_"."shop", sum("_"."amount") as "a0" from "main"."visits" "_" group by "_"."shop" order by "_"."shop" limit
1000001;

select "rows"."shop" as "shop", count(*) as "a0" from ( select "_"."shop" from "main"."visits" "_" where
"_"."visit_ts" >= timestamp '2024-02-01 00:00:00' and "_"."visit_ts" < timestamp '2024-03-01 00:00:00' ) "rows" group
by "shop";

select "rows"."county" as "county", count(*) as "a0" from ( select "_"."county" from "main"."persons" "_" where
"_"."visit_ts" >= timestamp '2024-02-01 00:00:00' and "_"."visit_ts" < timestamp '2024-03-01 00:00:00' ) "rows" group
by "county";

select "basetable0"."c1" as "c8", sum(cast("basetable0"."c2" as decimal)) as "a0" from ( select "county" as "c1",
"income" as "c2" from "main"."persons" ) "basetable0" group by "basetable0"."c1" limit 1000001;

-- tool: Looker
SET TIME ZONE 'UTC';

SELECT pg_backend_pid() IS NOT NULL;

SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'main' UNION SELECT schemaname,
viewname FROM pg_views WHERE schemaname = 'main' ORDER BY 1, 2;

SELECT DATE(visits.visit_ts) AS "visits.date", COUNT(*) AS "visits.count" FROM main.visits AS visits WHERE
(((visits.visit_ts) >= (TIMESTAMP '2024-02-01') AND (visits.visit_ts) < (TIMESTAMP '2024-03-01'))) GROUP BY 1 ORDER BY
1 DESC FETCH NEXT 500 ROWS ONLY;

SELECT (TO_CHAR(DATE_TRUNC('month', visits.visit_ts ), 'YYYY-MM')) AS "visits.m", COUNT(*) AS "visits.count" FROM
main.visits AS visits WHERE ((( visits.visit_ts ) >= ((DATE_TRUNC('month', DATE_TRUNC('day', TIMESTAMP
'2025-09-01')))) AND ( visits.visit_ts ) < ((DATE_TRUNC('month', DATE_TRUNC('day', TIMESTAMP '2025-09-01')) + (6 ||
' month')::INTERVAL)))) GROUP BY (DATE_TRUNC('month', visits.visit_ts )) ORDER BY 1 DESC FETCH NEXT 500 ROWS ONLY;

SELECT (TO_CHAR(DATE_TRUNC('month', persons.visit_ts ), 'YYYY-MM')) AS "persons.m", COUNT(*) AS "persons.count" FROM
main.persons AS persons WHERE ((( persons.visit_ts ) >= ((DATE_TRUNC('month', DATE_TRUNC('day', CURRENT_TIMESTAMP)) +
(-5 || ' month')::INTERVAL)) AND ( persons.visit_ts ) < ((DATE_TRUNC('month', DATE_TRUNC('day', CURRENT_TIMESTAMP)) +
(-5 || ' month')::INTERVAL) + (6 || ' month')::INTERVAL))) GROUP BY (DATE_TRUNC('month', persons.visit_ts )) ORDER BY
1 DESC FETCH NEXT 500 ROWS ONLY;

SELECT (DATE(persons.visit_ts )) AS "persons.d", COALESCE(SUM(persons.income ), 0) AS "persons.total" FROM
main.persons AS persons WHERE ((( persons.visit_ts ) >= (TIMESTAMP '2024-02-01') AND ( persons.visit_ts ) < (TIMESTAMP
'2024-02-15'))) GROUP BY 1 ORDER BY 1 DESC LIMIT 500;

SELECT persons.county AS "persons.county", AVG(persons.income ) AS "persons.avg" FROM main.persons AS persons GROUP BY
1 HAVING AVG(persons.income ) > 100 ORDER BY 2 DESC LIMIT 500;

SELECT COUNT(DISTINCT persons.county ) AS "c" FROM main.persons AS persons LIMIT 500;

SELECT (EXTRACT(YEAR FROM visits.visit_ts )::integer) AS "y", COUNT(*) FROM main.visits AS visits GROUP BY 1 ORDER BY
1 LIMIT 500;

SELECT 1 FROM (SELECT counties.county AS "c" FROM main.counties AS counties GROUP BY 1) ww LIMIT 1;

SELECT COUNT(*) FROM (SELECT persons.county AS "c" FROM main.persons AS persons GROUP BY 1) AS z___;
