-- What one call of unprotect runs. functions/budgets.py fills in $table, the table's name, a literal.
WITH _dk_answered AS MATERIALIZED (
  SELECT system.main._dk_unprotect($table, _dk_seen($table)) AS answer
)
SELECT answer.said AS said FROM _dk_answered WHERE _dk_unless(answer.problem)
