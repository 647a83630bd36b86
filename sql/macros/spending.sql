-- protect and unprotect: give a table a privacy budget, or take it away. Each returns one sentence that says what now holds.

CREATE OR REPLACE TEMP MACRO protect(
  tbl, unit := NULL, epsilon := NULL, hierarchy := [], per_query := NULL, max_size := NULL, public := [],
  quasi_identifiers := [], k := 5, sensitive := [], small := 5, drop := []
) AS (
  SELECT said FROM system.main.query(
    system.main._dk_write_protect(
      tbl, unit, epsilon, hierarchy, per_query, max_size, public, quasi_identifiers, k, sensitive, small, drop
    )
  ) AS _dk_answer(said)
);

CREATE OR REPLACE TEMP MACRO unprotect(tbl) AS (
  SELECT said FROM system.main.query(system.main._dk_write_unprotect(tbl)) AS _dk_answer(said)
);

-- privacy_ledger: every charge and every change of a policy. policies: what holds now. privacy_budget: what is left of each protected table's budget.
-- All read what is committed, whatever the caller's transaction sees.

CREATE OR REPLACE TEMP MACRO privacy_ledger() AS TABLE
  WITH _dk_answered AS MATERIALIZED (SELECT system.main._dk_ledger(true) AS answer)
  SELECT unnest(answer.rows, recursive := true) FROM _dk_answered WHERE _dk_unless(answer.problem);

CREATE OR REPLACE TEMP MACRO policies() AS TABLE
  WITH _dk_answered AS MATERIALIZED (SELECT system.main._dk_policies(true) AS answer)
  SELECT unnest(answer.rows, recursive := true) FROM _dk_answered WHERE _dk_unless(answer.problem);

CREATE OR REPLACE TEMP MACRO privacy_budget() AS TABLE
  WITH _dk_answered AS MATERIALIZED (SELECT system.main._dk_budget(true) AS answer)
  SELECT unnest(answer.rows, recursive := true) FROM _dk_answered WHERE _dk_unless(answer.problem);
