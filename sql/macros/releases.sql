-- What a steward lets everybody read. publish and unpublish return one sentence that says what now holds.

CREATE OR REPLACE TEMP MACRO publish(
  release, of := NULL, variables := [], given := [], value := NULL, digits := NULL, base := NULL, accept_changes := false
) AS (
  SELECT said FROM system.main.query(
    system.main._dk_write_publish(release, of, variables, given, value, digits, base, accept_changes)
  ) AS _dk_answer(said)
);

CREATE OR REPLACE TEMP MACRO unpublish(release) AS (
  SELECT said FROM system.main.query(system.main._dk_write_unpublish(release)) AS _dk_answer(said)
);

-- publications: what was published, and what of it was withdrawn.

CREATE OR REPLACE TEMP MACRO publications() AS TABLE
  WITH _dk_answered AS MATERIALIZED (SELECT system.main._dk_publications(true) AS answer)
  SELECT unnest(answer.rows, recursive := true) FROM _dk_answered WHERE _dk_unless(answer.problem);
