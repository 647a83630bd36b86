-- What a class releases of one quasi-identifier: the ends of its interval, or its set of values.
-- A class in which the column is NULL for some or all records releases NULL.

CREATE OR REPLACE TEMP MACRO _dk_lowest(x) AS
  CASE WHEN system.main.count(x) = system.main.count(*) THEN system.main.min(x) END;

CREATE OR REPLACE TEMP MACRO _dk_highest(x) AS
  CASE WHEN system.main.count(x) = system.main.count(*) THEN system.main.max(x) END;

-- To a collation 'a' and 'A' may be equal; a set must show both, and always in the same order. list_distinct goes by
-- the bytes, and the bytes settle what the collation leaves open.
CREATE OR REPLACE TEMP MACRO _dk_set(x) AS
  CASE WHEN system.main.count(x) = system.main.count(*)
    THEN system.main.list_transform(
      system.main.list_sort(system.main.list_transform(
        system.main.list_distinct(system.main.list(x)),
        lambda y: {'value': y, 'bytes': _dk_bytes(y)})),
      lambda y: y.value) END;

-- The union of sets, by the same rules.
CREATE OR REPLACE TEMP MACRO _dk_union(x) AS
  CASE WHEN system.main.count(x) = system.main.count(*)
    THEN system.main.list_transform(
      system.main.list_sort(system.main.list_transform(
        system.main.list_distinct(system.main.flatten(system.main.list(x))),
        lambda y: {'value': y, 'bytes': _dk_bytes(y)})),
      lambda y: y.value) END;

-- Whether a number is below the end of a band. Any type binds, so that the check of types can refuse those that are no
-- numbers. A FLOAT counts as it is written, 0.7 and not 0.699999988.
CREATE OR REPLACE TEMP MACRO _dk_below_end(x, e) AS
  CASE system.main.typeof(x)
    WHEN 'DOUBLE' THEN TRY_CAST(x AS DOUBLE) < CAST(e AS DOUBLE)
    WHEN 'FLOAT' THEN TRY_CAST(CAST(x AS VARCHAR) AS DOUBLE) < CAST(e AS DOUBLE)
    ELSE TRY_CAST(x AS DECIMAL(38, 18)) < e END;

-- The number of the band of width w that holds a number: it begins at a multiple of w. Division may round to the next
-- band, so the bands' ends decide. NULL for infinity, NaN, and numbers too large for that.
CREATE OR REPLACE TEMP MACRO _dk_band_near(x, w, n) AS
  n - CAST(_dk_below_end(x, n * w) AS BIGINT) + CAST(NOT _dk_below_end(x, (n + 1) * w) AS BIGINT);

CREATE OR REPLACE TEMP MACRO _dk_band(x, w) AS
  _dk_band_near(x, w, CASE WHEN system.main.abs(TRY_CAST(x AS DOUBLE) / w) < 2251799813685248
    THEN CAST(system.main.floor(TRY_CAST(x AS DOUBLE) / w) AS BIGINT) END);

-- The first label that two leaves have in common, from labels of the same depth. (An argument that is a subquery is a join
-- for each time that it is used: these macros use theirs once.)
CREATE OR REPLACE TEMP MACRO _dk_common(a, b) AS
  system.main.list_filter(system.main.list_zip(a, b), lambda pair: pair[1] = pair[2])[1][1];

-- What tells a value from every other of its type, whatever the collation.
CREATE OR REPLACE TEMP MACRO _dk_bytes(x) AS system.main.encode(CAST(x AS VARCHAR));

-- A filter that lets everything pass unless there is something to complain about.
CREATE OR REPLACE TEMP MACRO _dk_unless(problem) AS
  CASE WHEN problem IS NULL THEN true ELSE system.main.error(problem) END;
