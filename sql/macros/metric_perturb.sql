-- metric_perturb: the table's records, each with a replacement drawn from a mechanism. Each run draws anew, unless it
-- says the mechanism's epsilon: then it is charged, and the same call gives the same draw.

CREATE OR REPLACE TEMP MACRO metric_perturb(tbl, id, mechanism, epsilon := NULL) AS TABLE
  FROM system.main.query(system.main._dk_write_metric_perturb(tbl, id, mechanism, epsilon));
