-- metric_perturb: the table's records, each with a replacement drawn from a mechanism. Each run draws anew.

CREATE OR REPLACE TEMP MACRO metric_perturb(tbl, id, mechanism) AS TABLE
  FROM system.main.query(system.main._dk_write_metric_perturb(tbl, id, mechanism));
