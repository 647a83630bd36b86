-- disclosure_report: what a table of exact row proportions and its sample size give away, in one row.

CREATE OR REPLACE TEMP MACRO disclosure_report(tbl, rows, cols, count := NULL, small := 5) AS TABLE
  FROM system.main.query(system.main._dk_write_disclosure_report(tbl, rows, cols, count, small));
