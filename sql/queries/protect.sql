-- What one call of protect runs. functions/policies.py fills in:
--   $table  the table's name, a literal   $terms  the terms of the policy, as JSON in a literal
WITH _dk_described AS (
  SELECT system.main.list(column_name) AS names, system.main.list(column_type) AS types
  FROM (DESCRIBE FROM system.main.query_table($table))
),
_dk_answered AS MATERIALIZED (
  SELECT system.main._dk_protect(names, types, $table, _dk_seen($table), $terms) AS answer FROM _dk_described
)
SELECT answer.said AS said FROM _dk_answered WHERE _dk_unless(answer.problem)
