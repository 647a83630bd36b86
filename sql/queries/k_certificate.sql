-- What one call of k_certificate runs. functions/k_certificate.py fills in, beside rows.sql:
--   $found     the engine's call that finds the prices
--   $label     the number of a row's price
--   $columns   the quasi-identifiers
--   $in_order  keys that sort them
WITH
-- include rows.sql
_dk_found AS MATERIALIZED (
  SELECT answer.found.labels AS labels, answer.found.prices AS prices
  FROM (SELECT $found AS answer FROM _dk_packed)
  WHERE system.main.error(answer.problem) IS NULL
),
_dk_labelled AS NOT MATERIALIZED (
  SELECT *, $label AS "duckanon.label" FROM _dk_rows AS "duckanon.row"
),
_dk_prices AS MATERIALIZED (
  SELECT unnest(prices) AS price, system.main.generate_subscripts(prices, 1) - 1 AS "duckanon.label" FROM _dk_found
)
-- (What a collation takes for equal may have two prices: the least is valid for both.)
SELECT $columns, system.main.count(*) AS records, system.main.min(_dk_prices.price) AS price
FROM _dk_labelled AS "duckanon.row"
JOIN _dk_prices ON _dk_prices."duckanon.label" = "duckanon.row"."duckanon.label"
GROUP BY $columns
ORDER BY $in_order
