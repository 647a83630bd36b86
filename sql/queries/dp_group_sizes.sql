-- The result of dp_group_sizes, after queries/group_counts.sql. functions/dp_group_sizes.py fills in:
--   $answer  the engine's call      $ranks  a leaf's region at each level   $region    what a leaf's hash is of
--   $first   the smallest size      $released  names of columns
, _dk_packed AS (
  SELECT
    system.main.list(leaf) AS leaves,
    system.main.list(size) AS sizes,
    system.main.list(groups) AS groups,
    CAST(system.main.sum(content) AS VARCHAR) AS content
  FROM _dk_counted
),
_dk_tree AS (
  SELECT system.main.list($ranks) AS ranks, CAST(system.main.sum(system.main.hash($region)) AS VARCHAR) AS content
  FROM _dk_regions
),
-- One row, so one call: it charges the ledger, and then draws the noise.
_dk_answered AS MATERIALIZED (
  SELECT $answer AS answer
  FROM _dk_packed, _dk_tree, _dk_verdict
),
_dk_released AS (
  SELECT unnest(answer.regions) AS one FROM _dk_answered WHERE system.main.error(answer.problem) IS NULL
),
_dk_ordered AS (
  SELECT _dk_named.*, one
  FROM _dk_released JOIN _dk_named ON one.level = _dk_named.level AND one.region = _dk_named.region
  ORDER BY _dk_named.level, _dk_named.region
)
SELECT
  level,
  $released
  unnest(system.main.range($first, $first + system.main.len(one.groups))) AS size,
  unnest(one.groups) AS groups,
  unnest(one.low) AS low,
  unnest(one.high) AS high
FROM _dk_ordered
