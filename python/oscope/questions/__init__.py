"""What the labs declare: from a question as data to a section with sentence, table and figure.

`run` chooses points, `quantity` and `contrast` compute and compare, `table`, `drawing` and `curves` declare
what is shown, `section_text` writes figures, and `question` puts a section together.

Forms that few questions need are imported from their modules: `curve_shapes` (levels, knees and orders of
curves), `decomposition` (a whole and its parts), `combined_factors` (several factors as one),
`original_figures` (tables of a source), `cited_iterations` (iterations that it lists), `traced_calls`,
`traced_faults`, `probe_effect`, `changed_findings`.

Together with the values that they take and give they are the vocabulary in which the labs declare questions:
`from oscope import questions as q`.
"""

from oscope.figures import plots
from oscope.figures.analysed import Analysed, block_medians, label, measured, paired_difference
from oscope.figures.answer_text import cause, counted, excludes_zero, iteration, listed, median
from oscope.figures.tables import row_scale, shared_scale, uncertainty, unmeasured
from oscope.figures.traced import Traced
from oscope.model.document import Figure, Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import *
from oscope.model.samples import ExperimentResults, Floats, Ints, PointSamples
from oscope.model.units import GIBIBYTE, MEBIBYTE, PAGE, format_bytes, format_duration
from oscope.questions import histograms
from oscope.questions.contrast import *
from oscope.questions.curves import *
from oscope.questions.drawing import *
from oscope.questions.pivot import *
from oscope.questions.quantity import *
from oscope.questions.question import *
from oscope.questions.run import *
from oscope.questions.section_text import *
from oscope.questions.table import *
from oscope.questions.traced import *
from oscope.questions.wall_time import *
from oscope.statistics import (
    ComparedMetric,
    Summary,
    compare_pairs,
    compare_points,
    compare_within,
    summarise,
)
