-- What one call of metric_perturb runs. functions/metric_perturb.py fills in, beside source.sql:
--   $mechanism  the mechanism's name, a literal     $mechanism_problem  the check of its columns
--   $content    a hash of a row
--   $id         the column that names records       $answer             the engine's call
WITH
-- include source.sql
_dk_mechanism_described AS (
  SELECT system.main.list(column_name) AS names, system.main.list(column_type) AS types
  FROM (DESCRIBE FROM system.main.query_table($mechanism))
),
_dk_mechanism AS MATERIALIZED (
  SELECT
    secret,
    output,
    probability,
    system.main.dense_rank() OVER (ORDER BY system.main.encode(CAST(secret AS VARCHAR))) - 1 AS secret_place,
    system.main.row_number() OVER (ORDER BY system.main.encode(CAST(secret AS VARCHAR)), system.main.encode(CAST(output AS VARCHAR))) - 1 AS cell
  FROM (
    FROM system.main.query_table($mechanism)
    UNION ALL BY NAME
    SELECT NULL AS secret, NULL AS output, NULL AS probability WHERE false
  )
  WHERE (SELECT system.main.error($mechanism_problem) IS NULL FROM _dk_mechanism_described)
),
_dk_secrets AS (
  SELECT DISTINCT system.main.encode(CAST(secret AS VARCHAR)) AS key, secret_place FROM _dk_mechanism
),
_dk_rows AS MATERIALIZED (
  SELECT
    *,
    -- Equal tables have equal places, whatever the order of their rows.
    system.main.row_number() OVER (ORDER BY $content, system.main.encode(CAST("duckanon.row".$id AS VARCHAR)), arrival) - 1 AS place
  FROM (
    SELECT "duckanon.row", _dk_secrets.secret_place, system.main.row_number() OVER () AS arrival
    FROM (SELECT "duckanon.row" FROM _dk_source AS "duckanon.row")
    LEFT JOIN _dk_secrets ON _dk_secrets.key = system.main.encode(CAST("duckanon.row".$id AS VARCHAR))
  )
),
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer
  FROM _dk_rows
),
_dk_drawn AS (
  SELECT unnest(answer.found) AS cell, system.main.generate_subscripts(answer.found, 1) - 1 AS place
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
)
SELECT "duckanon.row".*, output AS perturbed
FROM _dk_rows
JOIN _dk_drawn USING (place)
JOIN _dk_mechanism USING (cell)
ORDER BY arrival
