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

-- What tells a value from every other of its type, whatever the collation.
CREATE OR REPLACE TEMP MACRO _dk_bytes(x) AS system.main.encode(CAST(x AS VARCHAR));

-- A filter that lets everything pass unless there is something to complain about.
CREATE OR REPLACE TEMP MACRO _dk_unless(problem) AS
  CASE WHEN problem IS NULL THEN true ELSE system.main.error(problem) END;
