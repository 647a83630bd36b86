-- group_sizes: how many groups of each size live in each region, exactly. The statement that answers a call is written from
-- queries/group_counts.sql when the call is bound.

CREATE OR REPLACE TEMP MACRO group_sizes(tbl, unit, hierarchy := [], quantity := NULL) AS TABLE
  FROM system.main.query(system.main._dk_write_group_sizes(tbl, unit, hierarchy, quantity));
