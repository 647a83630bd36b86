-- Groups that were counted elsewhere, for queries/group_counts.sql: how many there are of each size in each leaf region.
-- functions/group_counts.py fills in:
--   $table    the counts, a literal: h1, ... the hierarchy; size, groups, content, flaw; twice, a person is in two rows
--   $regions  all leaf regions, as h1, ...        $ranks     r0, ... a region's number at each level
--   $leaf     the number at the last level        $place     how groups find their leaf region
--   $no_unit, $no_region  numbers of what may be wrong
_dk_source AS (
  FROM system.main.query_table($table)
),
-- The types of the persons' columns were compared where they were counted.
_dk_described AS (
  SELECT []::VARCHAR[] AS names, []::VARCHAR[] AS types
),
_dk_regions AS MATERIALIZED (
  SELECT *, $ranks FROM ($regions)
),
_dk_counted AS MATERIALIZED (
  SELECT
    leaf,
    size,
    CAST(system.main.sum(groups) AS BIGINT) AS groups,
    system.main.sum(content) AS content,
    system.main.max(CASE WHEN flaw <> $no_unit AND leaf < 0 THEN $no_region ELSE flaw END) AS flaw
  FROM (SELECT _dk_source.*, coalesce($leaf, -1) AS leaf FROM _dk_source $place)
  GROUP BY ALL
)
