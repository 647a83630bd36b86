-- k_report: how exposed a table is by the columns in `qi`, as it stands. One row.

CREATE OR REPLACE TEMP MACRO k_report(tbl, qi, sensitive := [], population := NULL, fraction := NULL, l := 2) AS TABLE
  FROM system.main.query(system.main._dk_write_k_report(tbl, qi, sensitive, population, fraction, l));
