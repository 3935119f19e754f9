"""A matplotlib figure that a notebook shows as it is."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """Is its own picture: other figures are shown only after `%matplotlib inline`."""

    def _repr_png_(self) -> bytes:
        """Return the picture, for a notebook."""
        picture = io.BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()
