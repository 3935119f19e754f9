"""Names of the engine under which labs that are not yet declared know them."""

from oscope.figures.tables import row_scale
from oscope.labs.engine.curves import (  # noqa: F401
    FACTORS,
    RATE,
    RATE_UNIT,
    At,
    Curves,
    best,
    curve,
    lines_over,
    over_sizes,
    ratios,
    size_axis,
    size_of,
    sizes_of,
    source,
)
from oscope.labs.engine.quantity import derived, metric  # noqa: F401
from oscope.labs.engine.run import has, narrowing  # noqa: F401
from oscope.labs.engine.words import NOT_RUN, bytes_text, not_different, ratio_text  # noqa: F401
from oscope.labs.engine.words import reasons as unmeasured  # noqa: F401
from oscope.model.formatting import MISSING


def cells(summary, scale):  # type: ignore[no-untyped-def]
    """Return median and interval as two cells of a table whose columns share `scale`."""
    if summary is None:
        return [MISSING, MISSING]
    own = row_scale(scale, summary)
    return [own.text(summary.median), own.span(summary.ci95)]
