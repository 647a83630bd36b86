-- metric_mechanism: with which probability each record is replaced by which, so that near records cannot be told apart
-- and as little as possible is lost. A row for each secret and output. The statement that answers a call is written from
-- queries/metric_source.sql and queries/metric_mechanism.sql when the call is bound.

CREATE OR REPLACE TEMP MACRO metric_mechanism(
  tbl, id, features, epsilon := NULL, radius := NULL, metric := 'euclidean', prior := NULL, loss := NULL,
  method := 'auto', distances := NULL, destinations := NULL, isolated := 'error', gap := 0.0001, time_limit := 600,
  partition := 'k-m-dv', parts := NULL
) AS TABLE
  FROM system.main.query(system.main._dk_write_metric_mechanism(
    tbl, id, features, epsilon, radius, metric, prior, loss, method, distances, destinations, isolated, gap, time_limit,
    partition, parts));
