"""The figures: one description that both renderers can draw, thinned but never cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import synthetic
from oscope.figures import plots
from oscope.figures.analysed import Analysed
from oscope.figures.experiments import view
from oscope.labs import LABS
from oscope.model.errors import OscopeError
from oscope.model.samples import Results
from oscope.report import theme
from oscope.report.build import answers
from oscope.report.figures import draw, named_figures, save
from oscope.report.plot import plot_headline


def test_every_figure_of_the_report_becomes_a_file_of_each_format(tmp_path: Path) -> None:
    results = Results((synthetic.throughput(),))
    files = save(results, tmp_path / "new" / "folder", LABS)
    names = [name for name, _ in named_figures(results, LABS)]
    assert sorted(path.name for path in files) == sorted(
        f"{name}.{form}" for name in names for form in ("png", "svg")
    )
    assert all(path.read_bytes()[:4] in (b"\x89PNG", b"<?xm") for path in files)


def test_equal_results_give_equal_files(tmp_path: Path) -> None:
    results = Results((synthetic.throughput(),))
    one, two = save(results, tmp_path / "1", LABS), save(results, tmp_path / "2", LABS)
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OscopeError, match="cannot be made"):
        save(Results(()), tmp_path / "file", LABS)


def test_every_figure_of_the_survey_is_of_traces_that_both_renderers_know() -> None:
    figures = [figure for _, figure in named_figures(synthetic.survey(), LABS)]
    assert len(figures) >= 10
    for figure in figures:
        assert {trace["type"] for trace in figure.traces} <= {"scatter", "bar"}
        assert all("color" not in str(trace) for trace in figure.traces)
        assert figure.layout["xaxis"]["title"]["text"]
        assert draw(figure).axes[0].get_xlabel() == figure.layout["xaxis"]["title"]["text"]


def test_a_run_is_plotted_as_the_report_draws_it() -> None:
    measured = synthetic.throughput()
    headline = measured.metrics[measured.headline]
    # The report chooses a prefix; a run is plotted in the unit of the metric, so that this one has none.
    plain = replace(measured, metrics={headline.name: replace(headline, unit="widgets")})
    (figure,) = view(Analysed((plain,)), plain).figures[:1]
    own = plot_headline(plain)
    for mine, theirs in zip(own.axes[0].lines, draw(figure).axes[0].lines, strict=True):
        assert np.array_equal(mine.get_xydata(), theirs.get_xydata())
    assert own.axes[0].get_yticklabels()[0].get_text() == "call=read"
    assert own.get_supxlabel() == figure.note


def test_figures_are_thinned_and_say_what_lies_outside() -> None:
    samples = np.concatenate([np.random.default_rng(0).normal(100, 1, 50_000), [1e6]])
    figure = plots.strips("t", "x [ns]", [plots.Dot("a", 100.0, (99.0, 101.0), samples)])
    assert sum(len(trace["x"]) for trace in figure.traces) <= plots.SHOWN_SAMPLES + 1
    assert "samples lie outside the axis" in figure.note
    shown = figure.layout["xaxis"]["range"]
    assert shown[1] < 1000


def test_thinning_keeps_the_ends() -> None:
    values = np.random.default_rng(1).normal(size=10_000)
    thinned = plots.thin(values, 100)
    assert (thinned[0], thinned[-1], len(thinned)) == (values.min(), values.max(), 100)


def test_a_wide_range_gets_a_logarithmic_axis_and_one_that_reaches_zero_does_not() -> None:
    wide = plots.Dot("a", 10.0, None, np.array([1.0, 10.0, 1000.0]))
    below = plots.Dot("b", 10.0, None, np.array([-1.0, 10.0, 1000.0]))
    assert plots.strips("t", "x", [wide]).layout["xaxis"]["type"] == "log"
    assert plots.strips("t", "x", [below]).layout["xaxis"]["type"] == "linear"


def _luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_can_be_read_on_every_surface(name: str) -> None:
    colours = theme.SURFACES[name]
    pairs = [(ink, ground) for ink in ("ink", "soft", "accent") for ground in ("paper", "card", "tint")] + [
        ("warn", "warn-tint")
    ]
    for ink, ground in pairs:
        light, dark = sorted((_luminance(colours[ink]), _luminance(colours[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ink, ground)


def test_the_headline_figures_are_one_a_question_and_a_part_of_all() -> None:
    results = synthetic.survey()
    every = dict(named_figures(results, LABS))
    few = dict(named_figures(results, LABS, "headline"))
    questions = [section for part in answers(results, LABS) for section in part.sections if section.figures]
    assert len(few) == len(questions) < len(every) / 2
    assert few.items() <= every.items()


def test_what_no_lab_draws_has_the_figure_of_its_headline_metric() -> None:
    results = Results((replace(synthetic.cost(), experiment="own", workload="own"),))
    [(name, _)] = named_figures(results, LABS, "headline")
    assert name.startswith("own-")
