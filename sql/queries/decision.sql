-- What one call of unprotect, open_table, close_table or new_edition runs. functions/policies.py fills in:
--   $described  a row with what the call needs to know of the table   $call  the call
WITH _dk_described AS ($described),
_dk_answered AS MATERIALIZED (SELECT $call AS answer FROM _dk_described)
SELECT answer.said AS said FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
