-- What one call of k_anonymize runs. functions/k_release.py fills in, beside source.sql, which leaves
-- the columns to drop out:
--   $cells         the released cells, as aggregates  $released   their names
--   $within        every value lies in its cell       $kept       the quasi-identifiers, which are not released
--   $classes       the engine's call                  $hidden     names that do not sort the records of a class
--   $k             the least class size               $released_in_order  $released, in ascending order
--   $suppressed    how many records may be dropped    $unmet      whether a class fails l or t
WITH
-- include source.sql
_dk_packed AS (
  SELECT
    system.main.count(*) AS records,
    system.main.sum(system.main.hash("duckanon.row")) AS content,
    system.main.list("duckanon.row") AS rows,
    $classes AS answer
  FROM _dk_source AS "duckanon.row"
),
-- Rows of a class come to stand together, which makes all that follows several times cheaper.
_dk_answered AS MATERIALIZED (
  SELECT
    records,
    content,
    system.main.list_select(rows, answer.classes.members) AS rows,
    system.main.list_select(rows, answer.classes.dropped) AS dropped,
    answer.classes.labels AS labels
  FROM _dk_packed
  WHERE _dk_unless(answer.problem)
),
-- Unpacking the one row twice is cheaper than keeping what comes out.
_dk_labelled AS NOT MATERIALIZED (
  SELECT unnest(rows, max_depth := 1) AS "duckanon.row", unnest(labels) AS label FROM _dk_answered
),
_dk_cells AS (
  SELECT
    label,
    system.main.count(*) AS size,
    system.main.sum(system.main.hash("duckanon.row")) AS content,
    $cells
  FROM _dk_labelled
  GROUP BY label
),
-- Labels that share their cells are one equivalence class; numbers follow the released values and nothing else.
_dk_classes AS MATERIALIZED (
  SELECT *, system.main.dense_rank() OVER (ORDER BY $released_in_order) AS class_id FROM _dk_cells
),
-- The check on every output, by the released values: class sizes here, each value against its cell below.
_dk_tallies AS (
  SELECT system.main.sum(size) AS size, system.main.sum(content) AS content FROM _dk_classes GROUP BY class_id
),
_dk_dropped AS (
  SELECT system.main.count(*) AS size, coalesce(system.main.sum(system.main.hash("duckanon.row")), 0) AS content
  FROM (SELECT unnest(dropped, max_depth := 1) AS "duckanon.row" FROM _dk_answered)
),
_dk_verdict AS (
  SELECT CASE
    WHEN system.main.min(size) < $k
      THEN 'k_anonymize made a class of fewer than k records: this is a bug in duckanon, nothing was released.'
    WHEN system.main.sum(size) + (SELECT size FROM _dk_dropped) <> (SELECT records FROM _dk_answered)
      OR system.main.sum(content) + (SELECT content FROM _dk_dropped) <> (SELECT content FROM _dk_answered)
      THEN 'k_anonymize lost or changed a row: this is a bug in duckanon, nothing was released.'
    WHEN (SELECT size FROM _dk_dropped) > (SELECT $suppressed FROM _dk_answered)
      THEN 'k_anonymize dropped too many records: this is a bug in duckanon, nothing was released.'
    WHEN $unmet
      THEN 'k_anonymize made a class that fails l or t: this is a bug in duckanon, nothing was released.'
    END AS problem
  FROM _dk_tallies
)
-- Sorted by what is released and by nothing else: the input's order and values leave no trace.
FROM (
  SELECT class_id, $released, "duckanon.row".* EXCLUDE ($kept)
  FROM _dk_labelled JOIN _dk_classes USING (label)
  WHERE (SELECT _dk_unless(problem) FROM _dk_verdict)
    AND _dk_unless(CASE WHEN ($within) IS NOT TRUE
      THEN 'k_anonymize left a value outside its interval or set: this is a bug in duckanon, nothing was released.' END)
)
-- (What a collation takes for equal is put in order by its hash.)
ORDER BY
  COLUMNS(lambda c: NOT system.main.list_contains($hidden, c)) ASC NULLS LAST,
  system.main.hash(*COLUMNS(lambda c: NOT system.main.list_contains($hidden, c)))
