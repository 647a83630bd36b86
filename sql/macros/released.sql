-- What a class releases of one quasi-identifier: the ends of its interval, or its set of values.
-- A class in which the column is NULL for some or all records releases NULL.

CREATE OR REPLACE TEMP MACRO _dk_lowest(x) AS
  CASE WHEN system.main.count(x) = system.main.count(*) THEN system.main.min(x) END;

CREATE OR REPLACE TEMP MACRO _dk_highest(x) AS
  CASE WHEN system.main.count(x) = system.main.count(*) THEN system.main.max(x) END;

CREATE OR REPLACE TEMP MACRO _dk_set(x) AS
  CASE WHEN system.main.count(x) = system.main.count(*)
    THEN system.main.list_sort(system.main.list(DISTINCT x)) END;

-- A filter that lets everything pass unless there is something to complain about.
CREATE OR REPLACE TEMP MACRO _dk_unless(problem) AS
  CASE WHEN problem IS NULL THEN true ELSE system.main.error(problem) END;
