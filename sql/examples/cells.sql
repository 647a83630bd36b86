-- What would a table of percentages give away? Vote by education and age group, as row proportions and sample size.
CREATE OR REPLACE TABLE voters AS
SELECT *, CASE WHEN age < 40 THEN 'under 40' ELSE '40 and over' END AS age_group FROM read_csv('voters.csv');

FROM disclosure_report('voters', ['education', 'party'], ['vote']);
FROM cell_bounds('voters', ['education', 'party'], ['vote']) WHERE disclosed AND n BETWEEN 1 AND 4;
SELECT value FROM cell_values('voters', ['education'], ['vote']) WHERE education = 'master' AND vote = 'Dole' ORDER BY ALL;

-- What does an outsider learn from the percentages as printed, without decimals?
CREATE OR REPLACE TABLE printed AS
SELECT age_group, vote, round(count(*) / sum(count(*)) OVER (PARTITION BY age_group), 2) AS p
FROM voters GROUP BY age_group, vote;
FROM conditional_bounds('printed', ['age_group'], ['vote'], 'p', 944, digits := 2);

-- Which table of these variables is safe and tells most?
FROM table_designs('voters', ['education', 'age_group', 'party', 'vote'], fixed_cols := ['vote'], max_cols := 2) LIMIT 5;
