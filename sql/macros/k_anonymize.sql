-- k_anonymize: the table's records in classes of at least k, quasi-identifiers generalised to intervals and sets.
-- The statement that answers a call is written from queries/k_anonymize.sql when the call is bound.

CREATE OR REPLACE TEMP MACRO k_anonymize(
  tbl, qi, k := 5, method := 'auto', weights := NULL, categorical := [], drop := [], seconds := NULL,
  sensitive := [], l := NULL, diversity := 'distinct', c := NULL, t := NULL, max_suppression := 0, within := NULL,
  options := NULL
) AS TABLE
  FROM system.main.query(system.main._dk_write_k_anonymize(
    tbl, qi, k, method, weights, categorical, drop, seconds, sensitive, l, diversity, c, t, max_suppression, within,
    options
  ));
