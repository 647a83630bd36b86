-- The groups of a table of persons, counted, for queries/group_counts.sql. functions/group_counts.py fills in, beside
-- source.sql, which takes u, the unit; h1, ... the hierarchy; q, the quantity; p, the person:
--   $regions  all leaf regions, as h1, ...        $ranks     r0, ... a region's number at each level
--   $leaf     the number at the last level        $place     how persons find their leaf region
--   $size     a unit's size, as an aggregate      $measures  more aggregates of a unit: what its content is, what is wrong
--   $content  the hash of a unit                  $flaws     the worst that is wrong with a unit, as a number
--   $shown    the size that is counted
-- include source.sql
_dk_regions AS MATERIALIZED (
  SELECT *, $ranks FROM ($regions)
),
-- A region is its number from here on: cheaper to compare, and -1 where a person has none.
_dk_units AS (
  SELECT
    u,
    system.main.min(leaf) AS leaf,
    system.main.max(leaf) AS other,
    $size AS size,
    $measures
  FROM (SELECT _dk_source.*, coalesce($leaf, -1) AS leaf FROM _dk_source $place)
  GROUP BY u
),
_dk_counted AS MATERIALIZED (
  SELECT
    leaf,
    $shown AS size,
    system.main.count(*) AS groups,
    system.main.sum(system.main.hash($content)) AS content,
    system.main.max($flaws) AS flaw
  FROM _dk_units
  GROUP BY ALL
)
