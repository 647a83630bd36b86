"""Makes a small hospital in OMOP's common data model, from a seed: python -m tests.suites.omop [--data FOLDER].

The queries are those of OHDSI's QueryLibrary (fixtures/suites/omop). The vocabulary has the concepts that they name,
with the names, codes and relationships by which they look for them; everything else about it is made up, as all
records are.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from tests.suites.data import DATA

QUERIES = Path(__file__).parents[2] / "fixtures" / "suites" / "omop"
PERSONS = 2_000
# Which concepts there are, by domain, vocabulary and class: of each its number, with its code where a query reads it.
CONDITIONS = {
    31967: "", 256723: "", 372906: "", 440377: "", 441202: "", 435371: "", 23988: "", 200219: "", 372409: "",
    192279: "", 192671: "74474003", 26052: "", 258375: "", 194133: "161891005", 4230399: "359817006", 317009: "",
    201820: "73211009", 201826: "", 201254: "", 432791: "", 312327: "", 437541: "", 137829: "", 138723: "",
    140065: "", 434557: "", 253954: "", 440029: "",
}  # fmt: skip
INGREDIENTS = (
    1125315, 778711, 1115008, 1177480, 1112807, 1506270, 1304643, 1549080, 1300978, 996416, 1545999, 1539403, 974166,
    1782521, 1763204,
)  # fmt: skip
DRUGS = (
    40165254, 40165258, 906805, 1517070, 19010522, 19031397, 1336825, 19047763, 939355, 19102189, 19033566, 35606533,
    35606534, 2213473,
)  # fmt: skip
SURGERY, INJECTION, THERAPY = ("22851", "22612", "27130"), ("20610", "20552", "23350"), ("97001", "97140", "97002")
CONCEPTS: tuple[tuple[str, str, str, Sequence[tuple[int, str, str]]], ...] = (
    ("Condition", "SNOMED", "Clinical Finding", [(n, f"finding {n}", code or f"s{n}")
                                                 for n, code in CONDITIONS.items()]),
    ("Drug", "RxNorm", "Ingredient", [(n, f"ingredient {n}", f"i{n}") for n in INGREDIENTS]),
    ("Drug", "RxNorm", "Clinical Drug", [(n, f"drug {n}", f"d{n}") for n in DRUGS]),
    ("Drug", "RxNorm", "Brand Name", [(19011505, "brand 19011505", "b19011505"), (19011506, "brand 19011506", "b2")]),
    ("Drug", "RxNorm", "Branded Drug", [(40171902, "branded drug 40171902", "bd40171902")]),
    ("Drug", "NDFRT", "Mechanism of Action", [(4324992, "class 4324992", "c4324992")]),
    ("Drug", "Indication", "Ind / CI", [(21003378, "Angioedema", "n1"), (21001738, "Hypertension", "n2"),
                                        (21003276, "Anemia", "n3"), (21000716, "Tuberculosis", "n4")]),
    ("Condition", "SNOMED", "Disease", [(434558, "Tuberculosis", "56717001")]),
    ("Condition", "Cohort", "HOI", [(500000801, "OMOP Acute Myocardial Infarction 1", "h1"),
                                    (500000201, "OMOP Aplastic Anemia 1", "h2")]),
    ("Condition", "ICD9CM", "Diagnosis", [(44821988, "extrinsic asthma", "493.00"), (44829384, "lumbago", "724.2"),
                                          (44828788, "Lyme disease", "088.81")]),
    ("Procedure", "CPT4", "CPT4", [(2100000 + int(code), f"procedure {code}", code)
                                   for code in (*SURGERY, *INJECTION, *THERAPY)]),
    ("Procedure", "HCPCS", "HCPCS", [(2614000, "electrical stimulation", "G0283")]),
    ("Procedure", "ICD9Proc", "Procedure", [(n, f"procedure {n}", f"p{n}") for n in (2002382, 2002403, 2108452)]),
    ("Measurement", "LOINC", "Lab Test", [(3000905, "leukocytes", "l1"), (3004249, "blood pressure", "l2")]),
    ("Unit", "UCUM", "Unit", [(8961, "thousand per cubic millimeter", "u1"), (8876, "millimeter of mercury", "u2")]),
    ("Gender", "Gender", "Gender", [(8507, "MALE", "M"), (8532, "FEMALE", "F"), (8551, "UNKNOWN", "U")]),
    ("Visit", "Place of Service", "Place of Service", [(8717, "Inpatient Hospital", "21"), (8756, "Outpatient", "22"),
                                                       (8940, "Office", "11")]),
    ("Type Concept", "Type Concept", "Type", [(n, f"type {n}", f"t{n}") for n in (38000175, 38000179, 38000180,
                                                                                   43542356, 38000183, 38000215)]),
    ("Provider", "Specialty", "Specialty", [(n, f"specialty {n}", f"y{n}") for n in (38004446, 38004453, 38004456)]),
)  # fmt: skip
# Who is above whom, beside each concept itself.
ANCESTORS: dict[int, Sequence[int]] = {
    201820: (201826, 201254), 432791: (437541,), 312327: (434557,), 21003378: (1125315, 778711),
    21003276: (1115008, 1177480), 1539403: (40165254, 40165258), 974166: (906805, 1517070), 996416: (939355, 19102189),
    4324992: (1304643, 1549080, 1300978, 40165254), 21000716: (19010522, 19031397), 434558: (253954,),
    1304643: (19033566,), 1549080: (19047763,),
}  # fmt: skip
RELATIONSHIPS: Sequence[tuple[int, int, str]] = (
    (44821988, 317009, "Maps to"), (44829384, 194133, "Maps to"), (440029, 44828788, "Mapped from"),
    (500000801, 312327, "HOI - SNOMED"), (500000201, 137829, "HOI - SNOMED"), (19033566, 21001738, "May treat"),
    (19047763, 21001738, "Has FDA-appr ind"), (40165254, 21001738, "May treat"), (906805, 434557, "Has CI"),
    (434557, 256723, "Ind/CI - SNOMED"), (35606533, 40171902, "Has tradename"), (19011505, 40171902, "Constitutes"),
    (19011505, 19011506, "Has brand name"),
)  # fmt: skip
# A day in the years of a person's care, of so many days.
DAY = "DATE '2007-06-01' + (person_id * 7919 % 3600 + floor(random() * {}))::INTEGER"


def made_up(sizes: str, days: int, columns: str) -> str:
    """Records of persons, of whom each has so many, with a day of so many."""
    return f"""
        SELECT row_number() OVER (ORDER BY person_id, copy) AS row, {columns}
        FROM (
          SELECT *, {DAY.format(days)} AS day
          FROM (SELECT person_id, unnest(range(floor({sizes})::INTEGER)) AS copy FROM person)
        )"""


def one_of(numbers: Sequence[int]) -> str:
    """A number of a list, the first ones more often."""
    return f"{list(numbers)}[1 + floor({len(numbers)} * pow(random(), 2))::INTEGER]"


CONDITION, TYPE = one_of(list(CONDITIONS)), one_of((38000183, 38000215))
RECORDS = {
    "location": """
        SELECT i::INTEGER AS location_id, ['CA', 'GA', 'NY', 'TX'][1 + i % 4] AS state, 'z' || i // 2 AS zip
        FROM range(12) r(i)""",
    "care_site": """
        SELECT i::INTEGER AS care_site_id, [8717, 8756, 8940][1 + i % 3] AS place_of_service_concept_id
        FROM range(6) r(i)""",
    "provider": """
        SELECT i::INTEGER AS provider_id, [38004446, 38004453, 38004456][1 + i % 3] AS specialty_concept_id
        FROM range(15) r(i)""",
    "person": f"""
        SELECT i::INTEGER AS person_id, {one_of((8532, 8507, 8551))} AS gender_concept_id,
          1925 + floor(random() * 80)::INTEGER AS year_of_birth, 1 + floor(random() * 12)::INTEGER AS month_of_birth,
          1 + floor(random() * 28)::INTEGER AS day_of_birth, floor(random() * 12)::INTEGER AS location_id,
          floor(random() * 6)::INTEGER AS care_site_id
        FROM range(1, {PERSONS + 1}) r(i)""",
    "observation_period": made_up(
        "1 + 2 * pow(random(), 3)",
        300,
        """person_id,
          day - 400 + 1900 * copy::INTEGER AS observation_period_start_date,
          day + 1900 * copy::INTEGER + floor(random() * 1200)::INTEGER AS observation_period_end_date""",
    ),
    "visit_occurrence": made_up(
        "1 + 5 * random()",
        400,
        """person_id, day AS visit_start_date,
          day + floor(9 * pow(random(), 2))::INTEGER AS visit_end_date,
          floor(random() * 6)::INTEGER AS care_site_id""",
    ),
    "condition_era": made_up(
        "5 * random()",
        400,
        f"""person_id, {CONDITION} AS condition_concept_id,
          day AS condition_era_start_date, day + floor(90 * random())::INTEGER AS condition_era_end_date""",
    ),
    "condition_occurrence": f"""
        SELECT row_number() OVER (ORDER BY visit, copy) AS row, person_id, {CONDITION} AS condition_concept_id,
          visit_start_date AS condition_start_date,
          visit_start_date + floor(60 * random())::INTEGER AS condition_end_date, {TYPE} AS condition_type_concept_id,
          ['resolved', 'transferred', NULL, NULL, NULL][1 + floor(random() * 5)::INTEGER] AS stop_reason,
          CASE WHEN random() < 0.9 THEN floor(random() * 15)::INTEGER END AS provider_id, visit AS visit_occurrence_id
        FROM (SELECT *, row AS visit, unnest(range(floor(3 * random())::INTEGER)) AS copy FROM visit_occurrence)""",
    "drug_era": made_up(
        "5 * random()",
        400,
        f"""person_id, {one_of(INGREDIENTS)} AS drug_concept_id,
          day AS drug_era_start_date, day + floor(200 * random())::INTEGER AS drug_era_end_date""",
    ),
    "drug_exposure": f"""
        SELECT row_number() OVER (ORDER BY visit, copy) AS row, person_id, {one_of(DRUGS)} AS drug_concept_id,
          visit_start_date AS drug_exposure_start_date,
          visit_start_date + floor(30 * random())::INTEGER AS drug_exposure_end_date,
          {one_of((38000175, 38000179, 38000180, 43542356))} AS drug_type_concept_id,
          ['INVALID', 'side effects', NULL, NULL, NULL][1 + floor(random() * 5)::INTEGER] AS stop_reason,
          floor(random() * 12)::INTEGER AS refills, (10 * floor(random() * 10)) AS quantity,
          floor(random() * 5)::INTEGER * 15 AS days_supply, floor(random() * 15)::INTEGER AS provider_id,
          visit AS visit_occurrence_id
        FROM (SELECT *, row AS visit, unnest(range(floor(3 * random())::INTEGER)) AS copy FROM visit_occurrence)""",
    "procedure_occurrence": made_up(
        "4 * random()",
        400,
        """person_id,
          (SELECT list(concept_id ORDER BY concept_id) FROM concept WHERE domain_id = 'Procedure')
            [1 + floor(random() * 13)::INTEGER] AS procedure_concept_id, day AS procedure_date""",
    ),
    "measurement": made_up(
        "3 * random()",
        400,
        """person_id, day AS measurement_date,
          [3000905, 3004249][1 + copy % 2] AS measurement_concept_id, [8961, 8876][1 + copy % 2] AS unit_concept_id,
          (floor(random() * 100) / 10)::DECIMAL(4, 1) AS value_as_number""",
    ),
    "payer_plan_period": made_up(
        "2 * random()",
        300,
        """person_id, day AS payer_plan_period_start_date,
          day + floor(random() * 2000)::INTEGER AS payer_plan_period_end_date,
          ['HMO', 'PPO', 'POS'][1 + floor(random() * 3)::INTEGER] AS plan_source_value""",
    ),
    "death": f"""
        SELECT person_id, {DAY.format(400)} AS death_date FROM person WHERE random() < 0.15""",
    "cost": """
        SELECT row_number() OVER (ORDER BY event) AS row, event AS cost_event_id,
          (floor(random() * 20000) / 100)::DECIMAL(9, 2) AS total_paid,
          (floor(random() * 5000) / 100)::DECIMAL(9, 2) AS paid_by_patient,
          (floor(random() * 2000) / 100)::DECIMAL(9, 2) AS paid_patient_copay,
          (floor(random() * 1000) / 100)::DECIMAL(9, 2) AS paid_patient_coinsurance
        FROM (SELECT row AS event FROM drug_exposure) WHERE random() < 0.8""",
}


def vocabulary() -> Iterator[tuple[str, str]]:
    """The tables of the vocabulary, each with its query."""
    concepts = [
        (number, name, domain, vocabulary, kind, code)
        for domain, vocabulary, kind, listed in CONCEPTS
        for number, name, code in listed
    ]
    standard = "CASE WHEN vocabulary_id IN ('ICD9CM', 'Indication', 'Cohort') THEN NULL ELSE 'S' END"
    columns = "concept_id, concept_name, domain_id, vocabulary_id, concept_class_id, concept_code"
    dates = (
        "DATE '1970-01-01' AS valid_start_date, DATE '2099-12-31' AS valid_end_date, NULL::VARCHAR AS invalid_reason"
    )
    yield "concept", f"SELECT *, {standard} AS standard_concept, {dates} FROM (VALUES {rows(concepts)}) v({columns})"
    pairs = [(number, number) for number, *_ in concepts]
    pairs += [(above, below) for above, several in ANCESTORS.items() for below in several]
    yield "concept_ancestor", f"FROM (VALUES {rows(pairs)}) v(ancestor_concept_id, descendant_concept_id)"
    columns = "concept_id_1, concept_id_2, relationship_id"
    yield "concept_relationship", f"SELECT *, {dates} FROM (VALUES {rows(RELATIONSHIPS)}) v({columns})"


def rows(listed: Sequence[tuple[object, ...]]) -> str:
    return ", ".join(f"({', '.join(map(repr, row))})" for row in listed)


def make(folder: Path) -> None:
    """The tables as Parquet, and the queries."""
    tables = folder / "omop-1"
    tables.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("SELECT setseed(0.23)")
        for name, sql in (*vocabulary(), *RECORDS.items()):
            con.execute(f"CREATE TABLE {name} AS {sql}")
            described = con.execute(f"SELECT column_name FROM (DESCRIBE {name})").fetchall()
            own = f"row::INTEGER AS {name}_id, * EXCLUDE (row)" if ("row",) in described else "*"
            con.execute(f"COPY (SELECT {own} FROM {name}) TO '{tables / name}.parquet'")
    shutil.copytree(QUERIES, folder / "omop", dirs_exist_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.omop", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    make(parser.parse_args().data)


if __name__ == "__main__":
    main()
