-- The rows of a table, numbered, and what an engine needs of them, after source.sql. It takes:
--   $collected  an aggregate over the rows
--   $trees      tables with hierarchies, $joined the joins with them, and $places  a column with places in them or among bands, if there are any
-- include source.sql
$trees
-- The table is read once. What follows scans this copy, which DuckDB spills to disk where it has to.
_dk_rows AS MATERIALIZED (
  SELECT
    system.main.row_number() OVER () AS "duckanon.number",
    -- (Since DuckDB 2.0.1 a hash follows the collation. The sort key of a whole row does not.)
    system.main.hash("duckanon.row", system.main.create_sort_key("duckanon.row", 'ASC NULLS LAST')) AS "duckanon.content",
    "duckanon.row".*$places
  FROM _dk_source AS "duckanon.row"$joined
),
_dk_packed AS (
  SELECT
    system.main.count(*) AS records,
    system.main.sum("duckanon.content") AS content,
    $collected AS collected
  FROM _dk_rows AS "duckanon.row"
),
