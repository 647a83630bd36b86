-- What one call of a function runs whose answer an engine computes from the table's rows. A module such as
-- functions/k_compare.py fills in, beside rows.sql:
--   $answer  the engine's call
WITH
-- include rows.sql
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_packed
)
SELECT unnest(answer.rows, recursive := true) FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
