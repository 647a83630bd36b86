-- What a steward decides about a table. Each returns one sentence that says what now holds.

CREATE OR REPLACE TEMP MACRO protect(
  tbl, epsilon := NULL, population := NULL, privacy_unit := NULL, rows_per_unit := NULL, unit := NULL, hierarchy := [],
  max_size := NULL, per_query := NULL, per_edition := NULL, public := [], domains := NULL, bounds := NULL,
  quasi_identifiers := [], k := 5, sensitive := [], small := 5, drop := []
) AS (
  SELECT said FROM system.main.query(
    system.main._dk_write_protect(
      tbl, epsilon, population, privacy_unit, rows_per_unit, unit, hierarchy, max_size, per_query, per_edition, public,
      domains, bounds, quasi_identifiers, k, sensitive, small, drop
    )
  ) AS _dk_answer(said)
);

CREATE OR REPLACE TEMP MACRO unprotect(tbl) AS (
  SELECT said FROM system.main.query(system.main._dk_write_decision('unprotect', tbl)) AS _dk_answer(said)
);

CREATE OR REPLACE TEMP MACRO open_table(tbl) AS (
  SELECT said FROM system.main.query(system.main._dk_write_decision('open_table', tbl)) AS _dk_answer(said)
);

CREATE OR REPLACE TEMP MACRO close_table(tbl) AS (
  SELECT said FROM system.main.query(system.main._dk_write_decision('close_table', tbl)) AS _dk_answer(said)
);

CREATE OR REPLACE TEMP MACRO new_edition(tbl) AS (
  SELECT said FROM system.main.query(system.main._dk_write_decision('new_edition', tbl)) AS _dk_answer(said)
);

-- propose_domains: for stewards, the domains that the data would fit, to be read before they are used.

CREATE OR REPLACE TEMP MACRO propose_domains(tbl) AS TABLE
  FROM system.main.query(system.main._dk_write_propose_domains(tbl));

-- privacy_ledger: every charge and every decision. policies: what holds now. privacy_budget: what is left of each
-- population's budget. editions: when each began, and what was spent in it.
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

CREATE OR REPLACE TEMP MACRO editions() AS TABLE
  WITH _dk_answered AS MATERIALIZED (SELECT system.main._dk_editions(true) AS answer)
  SELECT unnest(answer.rows, recursive := true) FROM _dk_answered WHERE _dk_unless(answer.problem);
