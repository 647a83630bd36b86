-- k_compare: what each method loses on a table at each k, and how long it takes. Nothing is released.

CREATE OR REPLACE TEMP MACRO k_compare(
  tbl, qi, k := [5], methods := ['auto'], weights := NULL, categorical := [], seconds := NULL,
  target := NULL, sensitive := [], l := NULL, diversity := 'distinct', c := NULL, t := NULL, max_suppression := 0,
  options := NULL
) AS TABLE
  FROM system.main.query(system.main._dk_write_k_compare(
    tbl, qi, k, methods, weights, categorical, seconds, target, sensitive, l, diversity, c, t, max_suppression, options
  ));
