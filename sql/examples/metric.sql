-- Where do people start their rides, by cells of a kilometre? Each cell is replaced by one that is likely to be near.
CREATE OR REPLACE TABLE cells AS
SELECT 'cell ' || x || '/' || y AS cell, x, y FROM range(6) a(x), range(5) b(y);
CREATE OR REPLACE TABLE rides AS
SELECT i AS ride, 'cell ' || (i * i % 6) || '/' || (i % 5) AS cell FROM range(500) r(i);

-- A pair of cells within 2 km must look alike: at 1 km the odds move by exp(1.5) at most.
CREATE OR REPLACE TABLE mechanism AS
FROM metric_mechanism('cells', 'cell', ['x', 'y'], epsilon := 1.5, radius := 2);

-- Does it hold, and could another lose less?
FROM metric_report('mechanism', 'cells', 'cell', ['x', 'y'], epsilon := 1.5, radius := 2);

-- One draw for each ride, kept, without the true cell.
CREATE OR REPLACE TABLE released AS
SELECT ride, perturbed AS cell FROM metric_perturb('rides', 'cell', 'mechanism');
