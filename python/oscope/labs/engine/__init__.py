"""The engine of the labs: from a question that is declared as data to a section with table and figure.

`run` chooses points, `quantity` and `contrast` compute and compare, `table`, `drawing` and `curves` declare
what is shown, `words` writes figures, and `question` puts a section together.

Together with the values that they take and give they are the vocabulary in which the labs declare questions:
`from oscope.labs import engine as q`.
"""

from oscope.figures import plots
from oscope.figures.analysed import Analysed, block_medians, label, measured, paired_difference
from oscope.figures.tables import row_scale, shared_scale, uncertainty, unmeasured
from oscope.figures.traced import Traced
from oscope.figures.words import cause, counted, excludes_zero, iteration, listed, median
from oscope.labs.engine import histograms
from oscope.labs.engine.contrast import *
from oscope.labs.engine.curves import *
from oscope.labs.engine.drawing import *
from oscope.labs.engine.quantity import *
from oscope.labs.engine.question import *
from oscope.labs.engine.run import *
from oscope.labs.engine.table import *
from oscope.labs.engine.traced import *
from oscope.labs.engine.words import *
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import *
from oscope.model.samples import ExperimentResults, Floats, Ints, PointSamples
from oscope.model.units import GIBIBYTE, MEBIBYTE, PAGE, format_bytes, format_duration
from oscope.statistics import ComparedMetric, Summary, compare_points, compare_within, summarise
