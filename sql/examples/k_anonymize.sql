-- An anonymous copy of a survey: intervals for age and income, sets for education; the vote stays as it was.
CREATE OR REPLACE TABLE voters AS FROM read_csv('voters.csv');

CREATE OR REPLACE TABLE released AS
FROM k_anonymize('voters', ['age', 'education', 'income'], k := 5, categorical := ['education'], drop := ['town']);

-- How exposed was it, how exposed is it now?
FROM k_report('voters', ['age', 'education', 'income'], sensitive := ['vote']);
FROM k_report('released', ['age_lo', 'age_hi', 'education_set', 'income_lo', 'income_hi'], sensitive := ['vote']);

-- What would other methods and other k have lost?
FROM k_compare('voters', ['age', 'education', 'income'], k := [2, 5, 10], methods := ['initial', 'order', 'greedy', 'auto'],
  categorical := ['education']);
