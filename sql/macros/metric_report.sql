-- metric_report: whether a mechanism keeps what it promises, and what it loses, from its table alone. One row.

CREATE OR REPLACE TEMP MACRO metric_report(
  mechanism, tbl, id, features, epsilon := NULL, radius := NULL, metric := 'euclidean', prior := NULL, loss := NULL,
  distances := NULL, destinations := NULL, bound := true, gap := 0.0001, time_limit := 600
) AS TABLE
  FROM system.main.query(system.main._dk_write_metric_report(
    mechanism, tbl, id, features, epsilon, radius, metric, prior, loss, distances, destinations, bound, gap,
    time_limit));
