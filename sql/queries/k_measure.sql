-- What one call of k_report or k_compare runs. functions/k_report.py and k_compare.py fill in, beside source.sql:
--   $source   the rows the engine's call packs     $answer   the engine's call     $rows     its result, as rows
WITH
-- include source.sql
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM $source AS "duckanon.row"
)
SELECT $rows FROM _dk_answered WHERE _dk_unless(answer.problem)
