-- The result of metric_report, after queries/metric_source.sql. functions/metric.py fills in:
--   $answer   the engine's call
, _dk_answered AS MATERIALIZED (
  SELECT $answer AS answer FROM _dk_records WHERE (SELECT fine FROM _dk_sound)
)
SELECT unnest(answer.found) FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
