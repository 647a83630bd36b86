-- What one call of a function runs that lists what Python knows. functions/listing.py fills in:
--   $answer  the call whose rows it shows
WITH _dk_answered AS MATERIALIZED (SELECT $answer AS answer)
SELECT unnest(answer.rows, recursive := true) FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
