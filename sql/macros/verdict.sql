-- explain_privacy: what would become of a statement. For an analyst it reads the catalog and the policies; nothing runs,
-- and nothing is charged.

CREATE OR REPLACE TEMP MACRO explain_privacy(sql, role := 'analyst') AS TABLE
  WITH _dk_answered AS MATERIALIZED (SELECT system.main._dk_explain(sql, role) AS answer)
  SELECT unnest(answer.steps, recursive := true) FROM _dk_answered WHERE _dk_unless(answer.problem);
