"""Stays in hospitals, drawn with a fixed seed: patients with several stays, columns as untidy as offices get them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_DIAGNOSES = ("I10", "E11", "J45", "K35", "S72", "F32", "C50", "O80")


def discharges(stays: int = 20_000, patients: int = 14_000, seed: int = 1) -> pa.Table:
    """A row for each stay: patient, age, sex, zip, admitted, hospital, diagnosis, days, charge.

    Every patient has one stay or more, few have many. Most stays of a patient are in the same hospital. Ages and postal
    codes are missing here and there, sexes are written in several ways, charges are texts with a currency.
    """
    rng = np.random.default_rng(seed)
    share = rng.pareto(1.5, patients) + 0.05
    again = rng.choice(patients, stays - patients, p=share / share.sum())
    patient = rng.permutation(np.concatenate([np.arange(patients), again]))
    day = rng.integers(0, 365, stays)
    born, female, place = (
        np.clip(rng.normal(60, 20, patients), 0, 103).astype(int),
        rng.random(patients) < 0.54,
        rng.integers(0, 400, patients),
    )
    age = born[patient] + (day > 200)
    moved = np.where(rng.random(stays) < 0.1, rng.integers(0, 10, stays), 0)
    days = 1 + rng.geometric(0.25, stays)
    sexes = np.where(female[patient], "F", "M").astype(object)
    sloppy = rng.random(stays)
    sexes[sloppy < 0.02] = "f"
    sexes[sloppy > 0.995] = "unknown"
    return pa.table(
        {
            "patient": pa.array([f"P{one:06d}" for one in patient]),
            "age": pa.array(age, mask=rng.random(stays) < 0.004),
            "sex": pa.array(sexes.tolist()),
            "zip": pa.array([f"{10_000 + 17 * one:05d}" for one in place[patient]], mask=rng.random(stays) < 0.01),
            "admitted": pa.array(np.datetime64("2025-01-01") + day),
            "hospital": pa.array([f"H{one}" for one in (place[patient] // 40 + moved) % 10]),
            "diagnosis": pa.array(
                rng.choice(_DIAGNOSES, stays, p=(0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.05, 0.02)).tolist()
            ),
            "days": pa.array(days),
            "charge": pa.array([f"{one:.2f} EUR" for one in days * rng.gamma(4, 180, stays)]),
        }
    )
