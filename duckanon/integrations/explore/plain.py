"""Values of DuckDB as values of JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from duckanon.integrations.results import text

# JavaScript reads larger whole numbers wrongly.
_EXACT = 1 << 53


def plain(value: Any) -> Any:
    """The value for JSON. Decimals and whole numbers above 2^53 become floats; dates and the like become text."""
    if isinstance(value, Mapping):
        return {text(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else float(value)
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    return text(value)
