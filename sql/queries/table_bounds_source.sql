-- One table of a call of table_bounds. functions/table_bounds.py fills in:
--   $at      its number             $table   its name, a literal         $absent  NULL AS "<column>" for each of its columns
--   $keys    its variables as k0, ..., by their numbers among all        $number  the number of a cell, as an aggregate
--   $used    of a suppressed table, which variables identify a cell of what levels, as a CTE _dk_used_0, ...
--   $leveled its join with that
_dk_source_$at AS (
  SELECT $taken FROM (
    FROM system.main.query_table($table)
    UNION ALL BY NAME
    SELECT $absent WHERE false
  )
  WHERE (SELECT fine FROM _dk_checked)
),
$used
_dk_cells_$at AS MATERIALIZED (
  SELECT $keys $number AS number, system.main.count(*) AS times FROM _dk_source_$at$leveled GROUP BY ALL
)
