-- dp_group_sizes: how many groups of each size live in each region, with differential privacy. Charged to the ledger.

CREATE OR REPLACE TEMP MACRO dp_group_sizes(
  tbl, unit, hierarchy := [], epsilon := NULL, max_size := NULL, mechanism := 'auto', totals := 'public',
  quantity := NULL, bound := NULL, regions := NULL, split := NULL, person := NULL, intervals := 'guaranteed'
) AS TABLE
  FROM system.main.query(
    system.main._dk_write_dp_group_sizes(
      tbl, unit, hierarchy, epsilon, max_size, mechanism, totals, quantity, bound, regions, split, person,
      intervals
    )
  );
