-- The result of metric_mechanism, after queries/metric_source.sql. functions/metric.py fills in:
--   $answer   the engine's call
, _dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_records WHERE (SELECT fine FROM _dk_sound)
),
_dk_found AS (
  SELECT
    unnest(answer.found.secrets) AS secret_place,
    unnest(answer.found.outputs) AS output_place,
    unnest(answer.found.probabilities) AS probability
  FROM _dk_answered
  WHERE system.main.error(answer.problem) IS NULL
)
SELECT secrets.id AS secret, outputs.id AS output, probability
FROM _dk_found
JOIN _dk_records AS secrets ON secrets.place = secret_place
LEFT JOIN _dk_records AS outputs ON outputs.place = output_place
ORDER BY secret_place, output_place
