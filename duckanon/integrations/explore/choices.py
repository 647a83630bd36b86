"""What the browser sends: names that are looked up in the catalog, numbers, words from lists. Never SQL or a path."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from duckanon.accounting import epsilon
from duckanon.errors import InvalidInput
from duckanon.integrations.explore.catalog import Catalog, Column, Table

_LONGEST_NUMBER = 40


class Choices:
    """The arguments of one request. Methods raise InvalidInput for what is missing, unknown or of another type."""

    def __init__(self, value: object, catalog: Catalog) -> None:
        if not isinstance(value, dict):
            raise InvalidInput("The choices of a request must be a JSON object.")
        self._given: Mapping[str, Any] = value
        self._catalog = catalog
        self._read: set[str] = set()

    def _take(self, name: str) -> Any:
        self._read.add(name)
        return self._given.get(name)

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    def finish(self) -> None:
        """Raises InvalidInput if something was sent that nobody has read."""
        if unknown := sorted(set(self._given) - self._read):
            raise InvalidInput(f"There is no choice {unknown[0]!r} here.")

    def table(self, name: str = "table") -> Table:
        found = self._take(name)
        if not isinstance(found, str) or found not in self._catalog.tables:
            raise InvalidInput("There is no such table any more: choose one of the list.")
        return self._catalog.tables[found]

    def columns(self, name: str, table: Table, *, least: int = 0, most: int = 64) -> tuple[Column, ...]:
        found = self._take(name) or []
        if not isinstance(found, list) or not all(isinstance(value, str) for value in found):
            raise InvalidInput(f"{name} must be a list of columns.")
        if len(set(found)) < len(found) or not least <= len(found) <= most:
            raise InvalidInput(f"{name} must name from {least} to {most} different columns.")
        columns = [table.column(value) for value in found]
        if None in columns:
            raise InvalidInput(f"{name} names a column that the table does not have.")
        return tuple(column for column in columns if column is not None)

    def column(self, name: str, table: Table) -> Column | None:
        """One column, or none."""
        found = self._take(name)
        if found is None:
            return None
        column = table.column(found) if isinstance(found, str) else None
        if column is None:
            raise InvalidInput(f"{name} is no column of the table.")
        return column

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int:
        found = self._take(name)
        found = default if found is None else found
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise InvalidInput(f"{name} must be a whole number from {least} to {most}.")
        return found

    def maybe_whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number, or none."""
        return None if self._take(name) is None else self.whole(name, least, most)

    def wholes(self, name: str, least: int, most: int, longest: int) -> tuple[int, ...]:
        """A list of whole numbers, with one at least."""
        found = self._take(name)
        if not isinstance(found, list) or not 0 < len(found) <= longest:
            raise InvalidInput(f"{name} must be a list of 1 to {longest} numbers.")
        if not all(
            isinstance(value, int) and not isinstance(value, bool) and least <= value <= most for value in found
        ):
            raise InvalidInput(f"{name} must be whole numbers from {least} to {most}.")
        return tuple(found)

    def share(self, name: str) -> Decimal | None:
        """A number from 0 to 1, exactly as it was typed; None for none and for 0."""
        number = self._number(self._take(name), name)
        if number is not None and not 0 <= number <= 1:
            raise InvalidInput(f"{name} must be from 0 to 1.")
        return number or None

    def widths(self, name: str, table: Table) -> tuple[tuple[str, Decimal | str], ...]:
        """Widths of bands by column: a number, or one of the calendar's for a date."""
        found = self._take(name) or {}
        if not isinstance(found, dict):
            raise InvalidInput(f"{name} must give a width for a column.")
        read: list[tuple[str, Decimal | str]] = []
        for value, width in sorted(found.items()):
            column = table.column(value)
            if column is None or not (column.is_number or column.is_date):
                raise InvalidInput(f"{name} names a column that has no numbers or dates.")
            if column.is_date:
                if width not in ("day", "week", "month", "quarter", "year"):
                    raise InvalidInput("The bands of a date are a day, week, month, quarter or year wide.")
                read.append((value, str(width)))
                continue
            number = self._number(width, name)
            if number is None or number <= 0:
                raise InvalidInput(f"{name} must be numbers above 0.")
            read.append((value, number))
        return tuple(read)

    def word(self, name: str, allowed: Collection[str], default: str | None = None) -> str:
        found = self._take(name)
        found = default if found is None else found
        if not isinstance(found, str) or found not in allowed:
            raise InvalidInput(f"{name} must be one of {', '.join(allowed)}.")
        return found

    def words(self, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
        """Some words of a list, one at least, in the list's order."""
        found = self._take(name)
        if not isinstance(found, list) or not found or not all(one in allowed for one in found):
            raise InvalidInput(f"{name} must be some of {', '.join(allowed)}.")
        return tuple(text for text in allowed if text in found)

    def percent(self, name: str) -> Decimal | None:
        """A number above 0 and at most 100, exactly as it was typed, or none."""
        number = self._number(self._take(name), name)
        if number is not None and not 0 < number <= 100:
            raise InvalidInput(f"{name} must be above 0 and at most 100.")
        return number

    def epsilon(self, name: str = "epsilon") -> Fraction:
        """An epsilon, exactly as it was typed."""
        found = self._take(name)
        if not isinstance(found, str) or len(found) > _LONGEST_NUMBER:
            raise InvalidInput("epsilon must be a number, as in 0.1 or 1/10.")
        return epsilon(found)

    def _number(self, value: object, name: str) -> Decimal | None:
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > _LONGEST_NUMBER:
            raise InvalidInput(f"{name} must be a number that is written as text.")
        try:
            number = Decimal(value)
        except InvalidOperation:
            raise InvalidInput(f"{name} must be a number.") from None
        if not number.is_finite() or abs(number.adjusted()) > _LONGEST_NUMBER:
            raise InvalidInput(f"{name} must be a number.")
        return Decimal(format(number, "f"))


def names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]
