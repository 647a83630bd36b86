-- What one call of group_sizes or dp_group_sizes runs. functions/group_counts.py fills in:
--   $counted   how groups are counted, as CTEs: queries/group_units.sql or group_tallies.sql
--   $sentence  what is wrong with the table
--   $result    the query over _dk_counted and _dk_regions
WITH
$counted,
_dk_verdict AS (
  SELECT $sentence AS problem FROM (SELECT system.main.max(flaw) AS flaw FROM _dk_counted)
),
-- Every region under its own columns' names; those of the levels below are NULL.
_dk_named AS (
  $named
)
$result
