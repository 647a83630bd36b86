-- What one call of k_anonymize runs. functions/k_release.py fills in, beside rows.sql, where the columns to drop are
-- left out:
--   $classes       the engine's call, which returns where the labels are
--   $label         a row's label
--   $cells         the released cells, as aggregates  $released   their names
--   $within        every value lies in its cell       $kept       columns that are not released
--   $k             the least class size               $released_in_order  $released, in ascending order
--   $smallest      the size of the smallest class
--   $suppressed    how many records may be dropped    $unmet      whether a class fails l or t
--   $hidden        names that do not sort the records of a class
--   $levels        the level of each column, for method 'global'
--   $shown         how labels are found for the cells, where there are hierarchies
--   $found, $joined  the joins with hierarchies, of cells and of rows
WITH
-- include rows.sql
_dk_answered AS MATERIALIZED (
  SELECT records, content, answer.classes AS labels$levels
  FROM (SELECT records, content, $classes AS answer FROM _dk_packed)
  WHERE system.main.error(answer.problem) IS NULL
),
_dk_labelled AS NOT MATERIALIZED (
  SELECT *, $label AS "duckanon.label" FROM _dk_rows AS "duckanon.row"
),
-- One cell for all rows of a label. Those with label -1 are dropped.
_dk_cells AS (
  SELECT "duckanon.cell".*$shown FROM (
    SELECT
      "duckanon.label",
      system.main.count(*) AS "duckanon.size",
      system.main.sum("duckanon.content") AS "duckanon.content",
      $cells
    FROM _dk_labelled AS "duckanon.row"
    GROUP BY "duckanon.label"
  ) AS "duckanon.cell"$found
),
-- Labels that share their cells are one equivalence class; numbers follow the released values and nothing else.
_dk_classes AS MATERIALIZED (
  SELECT *, CASE WHEN "duckanon.label" >= 0
    THEN system.main.dense_rank() OVER (ORDER BY "duckanon.label" < 0, $released_in_order) END AS class_id
  FROM _dk_cells
),
-- The check on every output, by the released values: class sizes here, each value against its cell below.
_dk_tallies AS (
  SELECT class_id, system.main.sum("duckanon.size") AS size, system.main.sum("duckanon.content") AS content
  FROM _dk_classes
  GROUP BY class_id
),
_dk_verdict AS (
  SELECT CASE
    WHEN $smallest < $k
      THEN 'k_anonymize made a class of fewer than k records: this is a bug in duckanon, nothing was released.'
    WHEN system.main.sum(size) <> (SELECT records FROM _dk_answered)
      OR system.main.sum(content) <> (SELECT content FROM _dk_answered)
      THEN 'k_anonymize lost or changed a row: this is a bug in duckanon, nothing was released.'
    WHEN coalesce(system.main.sum(size) FILTER (WHERE class_id IS NULL), 0) > (SELECT $suppressed FROM _dk_answered)
      THEN 'k_anonymize dropped too many records: this is a bug in duckanon, nothing was released.'
    WHEN $unmet
      THEN 'k_anonymize made a class that fails l or t: this is a bug in duckanon, nothing was released.'
    END AS problem
  FROM _dk_tallies
)
-- Sorted by what is released and by nothing else: the input's order and values leave no trace.
FROM (
  SELECT
    _dk_classes.class_id,
    $released,
    "duckanon.row".* EXCLUDE ($kept, "duckanon.number", "duckanon.content", "duckanon.label")
  FROM _dk_labelled AS "duckanon.row"
  JOIN _dk_classes ON _dk_classes."duckanon.label" = "duckanon.row"."duckanon.label"$joined
  WHERE _dk_classes.class_id IS NOT NULL
    AND (SELECT system.main.error(problem) IS NULL FROM _dk_verdict)
    AND CASE WHEN ($within) IS TRUE THEN true ELSE system.main.error(
      'k_anonymize left a value outside its interval or set: this is a bug in duckanon, nothing was released.') END
) AS "duckanon.released"
-- (What a collation takes for equal is put in order by its sort key in the row, which follows none. Other columns need no more
-- than their own order: without text this is a constant, and costs nothing.)
ORDER BY
  COLUMNS(lambda c: NOT system.main.list_contains($hidden, c)) ASC NULLS LAST,
  CASE WHEN system.main.regexp_matches(system.main.typeof("duckanon.released"), 'VARCHAR|JSON')
    THEN system.main.hash(system.main.create_sort_key("duckanon.released", 'ASC NULLS LAST')) END
