-- The queries of a dashboard about persons: docs/functions/prepare.md plans the tables from which they follow.
SELECT state, count(*) AS persons FROM persons GROUP BY state;
SELECT sex, avg(income) AS income FROM persons WHERE age >= 25 GROUP BY sex;
SELECT age // 10 * 10 AS decade, count(*) FILTER (WHERE sex = 'f') AS women FROM persons GROUP BY decade;
