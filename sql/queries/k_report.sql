-- What one call of k_report runs. functions/k_report.py fills in, beside source.sql:
--   $source  the table's classes     $answer  the engine's call over them
WITH
-- include source.sql
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM $source
)
SELECT unnest(answer.measures) FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
