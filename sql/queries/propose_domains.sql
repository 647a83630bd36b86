-- What one call of propose_domains runs. functions/policies.py fills in:
--   $table  the table's name, a literal    $owner  the column of owners that were looked up, a literal: it is not listed
--   $unit   the unit of a record, or nothing   $units  how many units have a value, or records
--   $others  all columns but the unit
--   $records  its rows, where it has the column of units
--   $alone  what hardly any value is where it may tell one from all others
-- Aggregates of all columns side by side would fill the memory of DuckDB 2.0 from some 600 columns on: one grouping of
-- all values does not.
WITH _dk_described AS (
  SELECT
    column_name,
    column_type,
    system.main.row_number() OVER () AS place,
    system.main.regexp_matches(
      column_type, '^(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT|UTINYINT|USMALLINT|UINTEGER|UBIGINT)$$'
    ) AS is_whole,
    system.main.regexp_matches(column_type, '^(DECIMAL|BOOLEAN)') AS is_bare,
    system.main.regexp_matches(
      column_type, '^(STRUCT|MAP|UNION)\(|\]$$|^(BLOB|BIT|JSON|VARIANT|GEOMETRY)'
    ) AS is_odd
  FROM (DESCRIBE FROM system.main.query_table($table))
  WHERE column_name <> $owner
),
_dk_listed AS (
  SELECT column_name, value, system.main.count(*) AS records, $units AS units
  FROM (
    UNPIVOT (SELECT $unit CAST(COLUMNS(lambda name: name <> $owner) AS VARCHAR) FROM $records)
    ON COLUMNS($others) INTO NAME column_name VALUE value
  )
  GROUP BY column_name, value
),
_dk_numbered AS (
  SELECT
    column_name,
    records,
    units,
    is_whole OR is_bare AS plain,
    value,
    system.main.row_number() OVER (
      PARTITION BY column_name
      ORDER BY
        CASE WHEN is_whole THEN TRY_CAST(value AS HUGEINT) END,
        CASE WHEN NOT is_whole AND column_type <> 'VARCHAR' THEN TRY_CAST(value AS DOUBLE) END,
        value
    ) AS number
  FROM _dk_listed
  JOIN _dk_described USING (column_name)
),
_dk_counted AS (
  SELECT
    column_name,
    system.main.count(*) AS several,
    system.main.sum(records) AS filled,
    system.main.sum(units) AS had,
    system.main.string_agg(
      CASE WHEN plain THEN value ELSE '''' || system.main.replace(value, '''', '''''') || '''' END, ', ' ORDER BY number
    ) FILTER (number <= 201) AS listed
  FROM _dk_numbered
  GROUP BY column_name
),
_dk_judged AS (
  SELECT
    place,
    column_name,
    column_type,
    coalesce(several, 0) AS distinct_values,
    (SELECT system.main.count(*) FROM $records) - coalesce(filled, 0) AS nulls,
    listed,
    CASE
      WHEN is_odd THEN 'values of this type are no keys'
      WHEN several IS NULL THEN 'there is no value: list those that there may be'
      WHEN system.main.starts_with(column_type, 'TIMESTAMP') AND (several > 200 OR several * 2 > had)
        THEN 'times rarely repeat: add a column of type DATE with their days, and propose again'
      WHEN several > 200 THEN 'more than 200 values: name a column of an open table, as in ''items.item_id'', or a range, or make them coarser'
      WHEN several * 2 > had THEN 'hardly a value is $alone: it may tell one from all others'
    END AS why_not
  FROM _dk_described
  LEFT JOIN _dk_counted USING (column_name)
)
SELECT
  column_name,
  column_type,
  distinct_values,
  CAST(nulls AS BIGINT) AS nulls,
  CASE WHEN why_not IS NULL THEN '[' || listed || CASE WHEN nulls > 0 THEN ', NULL]' ELSE ']' END END AS domain,
  CASE
    WHEN why_not IS NOT NULL THEN why_not
    WHEN system.main.starts_with(column_type, 'ENUM(') THEN 'or ''ENUM'', for all values of the type'
    WHEN nulls > 0 THEN 'NULL is a key too: leave it out, and its records are not counted'
  END AS hint
FROM _dk_judged
ORDER BY place
