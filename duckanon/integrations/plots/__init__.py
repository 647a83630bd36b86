"""Pictures of results: `plot` draws a result of one of duckanon's functions.

matplotlib comes with the extra `plot`, and is imported when the first picture is drawn.
"""

from duckanon.integrations.plots.picture import Picture
from duckanon.integrations.plots.plot import PICTURES, plot

__all__ = ["PICTURES", "Picture", "plot"]
