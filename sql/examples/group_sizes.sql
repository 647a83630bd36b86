-- Households by size, in the nation, its states and its counties: exactly, and released with differential privacy.

CREATE TABLE persons AS
SELECT i AS person, i // 3 AS household, 's' || (i // 60) AS state, 'c' || (i // 15) AS county, i % 4 AS cars
FROM range(240) r(i);

FROM group_sizes('persons', 'household', ['state', 'county']);

-- At most epsilon = 2 in all for the residents; a charge protects all records of one person.
SELECT protect('persons', population := 'residents', privacy_unit := 'person', epsilon := 2);

FROM dp_group_sizes('persons', 'household', ['state', 'county'], epsilon := 0.5, max_size := 6, person := 'person');

-- The same call is the same release, and free.
FROM dp_group_sizes('persons', 'household', ['state', 'county'], epsilon := 0.5, max_size := 6, person := 'person');

-- Households by their number of cars, none included; nobody has more than three.
FROM dp_group_sizes(
  'persons', 'household', ['state'], epsilon := 0.5, max_size := 10, quantity := 'cars', bound := 3, person := 'person'
);

FROM privacy_ledger();
FROM privacy_budget();
