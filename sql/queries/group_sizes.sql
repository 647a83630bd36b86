-- The result of group_sizes, after queries/group_counts.sql. functions/group_sizes.py fills in:
--   $levels  the levels' numbers   $places  a leaf's region at each level   $leaf  its number   $released  names of columns
, _dk_branches AS (
  SELECT $leaf AS leaf, unnest($levels) AS level, unnest($places) AS region FROM _dk_regions
),
_dk_sums AS (
  SELECT level, region, size, CAST(system.main.sum(groups) AS BIGINT) AS groups
  FROM _dk_counted JOIN _dk_branches USING (leaf)
  WHERE (SELECT system.main.error(problem) IS NULL FROM _dk_verdict)
  GROUP BY ALL
)
SELECT level, $released size, groups
FROM _dk_sums JOIN _dk_named USING (level, region)
ORDER BY level, region, size
