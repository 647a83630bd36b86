"""What goes together with objective := 'sse', the sum of squares within classes."""

from __future__ import annotations

from duckanon.errors import InvalidInput
from duckanon.functions.generalisation import Generalisation
from duckanon.functions.privacy_criteria import Criteria

SQUARES = "sse"


def without_cells(how: Generalisation) -> None:
    """Check that values are taken as they are. Raises InvalidInput."""
    if how.all or how.suppress:
        raise InvalidInput(
            "objective := 'sse' is for numbers and categories as they are: leave bands, hierarchies and suppress_cells "
            "out."
        )


def without_conditions(criteria: Criteria, options: object) -> None:
    """Check that nothing is asked of classes beside their size, and no options are given. Raises InvalidInput."""
    if criteria.columns or criteria.max_suppression:
        raise InvalidInput(
            "objective := 'sse' has no conditions beside k of the records: leave sensitive, l, t and max_suppression "
            "out, and write unit := '' where a policy names one."
        )
    if options is not None:
        raise InvalidInput("objective := 'sse' has no options: leave options out.")
