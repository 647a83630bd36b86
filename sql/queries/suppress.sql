-- What one call of suppress runs. functions/suppress.py fills in, beside source.sql:
--   $keys      the row columns as r1, ..., the column columns as c1, ...
--   $amount    what a record adds to its cell          $unit       whose record it is
--   $exact     whether the table keeps all its decimals
--   $flaws     what may be wrong with the records, as an aggregate
--   $cells     the cells of the table with all totals  $row_order  totals before their parts, and so $col_order
--   $row_keys  row_level, r1, ...                      $col_keys   col_level, c1, ...
--   $answer    the engine's call
--   $released  the columns under their own names       $sum       a cell's sum
--   $audited   the columns for the officer
WITH
-- include source.sql
_dk_records AS MATERIALIZED (
  SELECT $keys, $amount AS amount, $unit AS unit, $exact AS exact FROM _dk_source
),
_dk_sound AS (
  SELECT system.main.error($flaws) IS NULL AS fine FROM _dk_records
),
_dk_sums AS (
  $cells
),
_dk_cells AS MATERIALIZED (
  SELECT
    *,
    system.main.dense_rank() OVER (ORDER BY $row_order) - 1 AS row_place,
    system.main.dense_rank() OVER (ORDER BY $col_order) - 1 AS col_place
  FROM _dk_sums
),
_dk_rows AS (
  SELECT DISTINCT row_place, $row_keys FROM _dk_cells
),
_dk_columns AS (
  SELECT DISTINCT col_place, $col_keys FROM _dk_cells
),
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_cells
),
_dk_found AS (
  SELECT
    unnest(answer.found.row_place) AS row_place,
    unnest(answer.found.col_place) AS col_place,
    unnest(answer.found.status) AS status,
    unnest(answer.found."lower") AS "lower",
    unnest(answer.found."upper") AS "upper"
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
)
SELECT
  $released,
  _dk_rows.row_level,
  _dk_columns.col_level,
  CASE WHEN status = 'published' THEN $sum END AS "value",
  status <> 'published' AS suppressed
  $audited
FROM _dk_found
JOIN _dk_rows USING (row_place)
JOIN _dk_columns USING (col_place)
LEFT JOIN _dk_cells USING (row_place, col_place)
ORDER BY row_place, col_place
