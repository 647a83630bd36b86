-- What one call of record_risk runs. functions/record_risk.py fills in, beside rows.sql:
--   $found   the engine's call that finds the classes and the minimal uniques of each
--   $label   a row's class
--   $people  a query of the people in each class, as far as they are known
--   $hidden  the column of owners that were looked up, if there is one: it is not shown
--   $answer  the engine's call that measures the classes
--   $household  a row's household; NULL for none     $kept  whether the records with their risks are kept
--   $shown   a query of these records with the risk of their households
WITH
-- include rows.sql
_dk_found AS MATERIALIZED (
  SELECT answer.found.labels AS labels, answer.found.classes AS classes
  FROM (SELECT $found AS answer FROM _dk_packed)
  WHERE system.main.error(answer.problem) IS NULL
),
_dk_labelled AS NOT MATERIALIZED (
  SELECT *, $label AS "duckanon.label" FROM _dk_rows AS "duckanon.row"
),
_dk_people AS (
  $people
),
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_people
),
_dk_risks AS MATERIALIZED (
  SELECT
    unnest(answer.risks, recursive := true),
    system.main.generate_subscripts(answer.risks, 1) - 1 AS "duckanon.label"
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
),
_dk_told AS $kept (
  SELECT
    "duckanon.row".* EXCLUDE ("duckanon.number", "duckanon.content", "duckanon.label"$hidden),
    _dk_risks.* EXCLUDE ("duckanon.label"),
    $household AS "duckanon.household"
  FROM _dk_labelled AS "duckanon.row"
  JOIN _dk_risks ON _dk_risks."duckanon.label" = "duckanon.row"."duckanon.label"
)
-- The order of the input leaves no trace.
FROM ($shown)
ORDER BY risk DESC, suda DESC, COLUMNS(*) ASC NULLS LAST, $exactly
