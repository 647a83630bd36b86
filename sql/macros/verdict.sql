-- explain_privacy: what an analyst's connection would make of a statement. It reads the catalog and the policies; nothing
-- runs, and nothing is charged.

CREATE OR REPLACE TEMP MACRO explain_privacy(sql) AS TABLE
  WITH _dk_answered AS MATERIALIZED (SELECT system.main._dk_explain(sql) AS answer)
  SELECT unnest(answer.steps, recursive := true) FROM _dk_answered WHERE _dk_unless(answer.problem);
