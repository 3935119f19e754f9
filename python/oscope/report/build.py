"""What the report says, free of any medium: verdict, findings, answers, experiments, method, data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from oscope.figures import experiments, method
from oscope.figures.analysed import Analysed
from oscope.figures.experiments import ExperimentView
from oscope.figures.lazy_answers import Lazy
from oscope.model.document import Figure, Section, Table
from oscope.model.experiment import Lab
from oscope.model.formatting import format_count
from oscope.model.samples import ExperimentResults, Results
from oscope.programs import findings as programs
from oscope.report import embed
from oscope.report.builds import compared
from oscope.report.embed import Packed
from oscope.report.first_screen import FirstScreen, first_screen
from oscope.report.machine import Unmeasured, distrust, unmeasured
from oscope.report.origins import EXPERIMENTS, Origin, command, origins
from oscope.statistics import injected
from oscope.statistics.compare import THRESHOLD
from oscope.statistics.machines import build_name, label

DATA_ROOM = 9_500_000
"""Bytes that the samples may take in the page: with the figures and Plotly it stays below 12 MB."""


@dataclass(frozen=True)
class LabPart:
    """A lab's answers, as far as its experiments were run."""

    key: str
    title: str
    document: str
    sections: Sequence[Section]
    origins: Mapping[str, Sequence[Origin]] = field(default_factory=dict)
    """Where the figures of a section come from, by its title."""

    @property
    def headline(self) -> Sequence[Figure]:
        """The figure of each question that answers it: the first of its section."""
        return [section.figures[0] for section in self.sections if section.figures]


@dataclass(frozen=True)
class Download:
    """The samples of one experiment, to be unpacked by the browser."""

    key: str
    label: str
    file: str
    packed: Packed
    note: str


@dataclass(frozen=True)
class Report:
    """Everything on the page, in the order of reading."""

    title: str
    verdict: str
    facts: Sequence[tuple[str, str]]
    labs: Sequence[LabPart]
    experiments: Sequence[ExperimentView]
    method: Sequence[Table]
    downloads: Sequence[Download]
    first: FirstScreen | None = None
    """None where there is no run, only the history of several."""
    unmeasured: Unmeasured | None = None
    injected: str | None = None
    """That interference was injected on purpose, and how often it was at work; None of clean runs."""
    compared: Sequence[Section] = ()
    """The comparisons of runs that were measured interleaved."""


def build(
    results: Results, labs: Sequence[Lab], beside: Sequence[Results] = (), threshold: float = THRESHOLD
) -> Report:
    """Return the report of `results`; the answers are those of the `labs` whose experiments were run.

    `beside` are the results of other machines, whose figures are marked on the first screen. `threshold` is
    the share from which on a difference of interleaved runs matters.
    """
    analysed = Analysed.of(results)
    parts = [
        replace(part, origins={each.title: origins(each.title, results, labs) for each in part.sections})
        for part in answers(analysed, labs)
    ]
    every = results.experiments
    shown = [
        replace(one, command=command(each, labs, every), answers=programs.answers(analysed, each))
        for one, each in zip(views(analysed), every, strict=True)
    ]
    return Report(
        title=title(results, labs),
        verdict=verdict(analysed),
        facts=_facts(results),
        labs=parts,
        experiments=shown,
        method=method.tables(results),
        downloads=_downloads(results),
        first=first_screen(analysed, partial(_target, parts, results), beside),
        unmeasured=unmeasured(results),
        injected=injected.banner(results.experiments),
        compared=compared(results, threshold),
    )


def _target(parts: Sequence[LabPart], results: Results, experiment: str, section: str) -> str:
    """Return the identifier of the section of this title, else of the first one on the experiment."""
    every = [(part, each) for part in parts for each in part.sections]
    named = [(part, each) for part, each in every if each.title == section]
    own = [(part, each) for part, each in every if experiment in EXPERIMENTS.get(each.title, ())[:1]]
    for part, each in (*named, *own):
        return f"{part.key}-{slug(each.title)}"
    numbers = [number for number, name in enumerate(results.names, 1) if name == experiment]
    return f"experiment-{numbers[-1]}"


def slug(text: str) -> str:
    """Return a text as an identifier for links."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def answers(results: Results, labs: Sequence[Lab]) -> list[LabPart]:
    """Return the answers of those labs that were run; an answer that two of them give is given once."""
    analysed = Analysed.of(results)
    parts: list[LabPart] = []
    for lab in labs_run(results, labs):
        given = [section for part in parts for section in part.sections]
        own = [section for section in _sections(lab, analysed) if section not in given]
        parts.append(LabPart(lab.name, lab.title, lab.document, own))
    return [part for part in parts if part.sections]


def headlines(results: Results, labs: Sequence[Lab]) -> Iterator[str]:
    """Yield the sentences that answer the questions of those labs, each once, made when it is asked for."""
    analysed = Analysed.of(results)
    given: set[str] = set()
    for lab in labs_run(results, labs):
        if (known := _known(lab, analysed)) is None:
            continue
        own = lab.sections
        found = own.answers(known) if isinstance(own, Lazy) else (each.answer for each in own(known))
        for answer in found:
            if answer and answer not in given:
                given.add(answer)
                yield answer


def _sections(lab: Lab, results: Analysed) -> list[Section]:
    known = _known(lab, results)
    return [] if known is None else lab.sections(known)


def _known(lab: Lab, results: Analysed) -> Analysed | None:
    """Return those results whose clock `lab` knows to speak of; None where it has nothing to say."""
    known = replace(
        results, experiments=tuple(each for each in results.experiments if each.clock in lab.clocks)
    )
    return known if set(known.names).intersection(part.name for part in lab.parts) else None


def labs_run(results: Results, labs: Sequence[Lab]) -> list[Lab]:
    """Return the labs of which an experiment or inspection was run.

    Labs share experiments: a lab of which nothing was run but part of what was run of another one is not
    among them; of two equal ones only the first is.
    """
    names = set(results.names)
    run = {lab.name: names.intersection(part.name for part in lab.parts) for lab in labs}
    found: list[Lab] = []
    for lab in labs:
        own = run[lab.name]
        more = any(own < other for other in run.values())
        same = any(own == run[other.name] for other in found)
        if own and not more and not same:
            found.append(lab)
    return found


def views(results: Results) -> list[ExperimentView]:
    """Return every experiment as figures and tables."""
    analysed = Analysed.of(results)
    found = [experiments.view(analysed, each) for each in results.experiments]
    if len({each.run_id for each in results.experiments}) < 2:
        return found
    return [
        replace(one, title=f"{one.title}, run {label(each)}")
        for one, each in zip(found, results.experiments, strict=True)
    ]


def title(results: Results, labs: Sequence[Lab]) -> str:
    """Return what the page is on: the survey, a lab, or one experiment."""
    names = results.names
    parts = [lab.title for lab in labs_run(results, labs)]
    runs = {each.run_id for each in results.parts}
    survey = [each.name for lab in labs for each in lab.experiments if each.quick is not None]
    if (
        len(runs) == 1
        and results.experiments
        and set(survey) <= set(names)
        and results.experiments[0].settings.get("profile") == "quick"
    ):
        return "This machine’s survey"
    if len(set(names)) == 1 and results.parts[0].title:
        return results.parts[0].title
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "Measurements"


def verdict(results: Results) -> str:
    """Return in a sentence or two whether what was asked for was measured, and whether it can be trusted."""
    points = [point for each in results.experiments for point in each.points]
    samples, failed = sum(map(len, points)), sum(len(point.failed) for point in points)
    skipped = sum(point.skipped is not None for point in points)
    empty = sum(point.skipped is None and len(point) == 0 for point in points)
    parts = _inspections(results)
    if results.experiments or not results.inspections:
        measured = _counted(len(points) - skipped - empty, "point")
        again = sum(len(point.again) for point in points)
        repeated = f", {format_count(again)} of them in repetition after interference" if again else ""
        were = "was" if samples == 1 else "were"
        parts.insert(0, f"{_counted(samples, 'sample')} of {measured} {were} taken{repeated}")
    done = len(parts)
    parts += (
        [f"{_counted(failed, 'sample')} failed and {'is' if failed == 1 else 'are'} left out"]
        if failed
        else []
    )
    parts += (
        [f"{_counted(skipped, 'point')} {'was' if skipped == 1 else 'were'} not measured"] if skipped else []
    )
    parts += [f"{_counted(empty, 'point')} {'was' if empty == 1 else 'were'} not reached"] if empty else []
    parts += _shortfalls(results)
    whole = len(parts) == done and all(each.result is not None for each in results.inspections)
    all_there = "everything asked for was measured" if results.experiments else "nothing asked for is missing"
    text = "; ".join(parts) + (f", and {all_there}." if whole else ".")
    text = " ".join([text, *_repeated(results)])
    return " ".join(filter(None, (distrust(results.experiments), text)))


def _inspections(results: Results) -> list[str]:
    """Say how many inspections were made, and how many were not."""
    made = sum(each.result is not None for each in results.inspections)
    left = len(results.inspections) - made
    parts = [f"{_counted(made, 'inspection')} {'was' if made == 1 else 'were'} made"] if made else []
    return parts + ([f"{_counted(left, 'inspection')} could not be made"] if left else [])


def _shortfalls(results: Results) -> list[str]:
    """Say what was asked for and not reached, though nothing forbade it."""
    analysed = Analysed.of(results)
    lacking, without, wide = 0, 0, 0
    for experiment in analysed.experiments:
        precision, reps = experiment.settings.get("precision"), experiment.settings.get("reps") or 0
        for point in experiment.points:
            if point.skipped is not None or not len(point):
                without += 0 if precision else reps
                continue
            if not precision:
                lacking += max(reps - len(point) + len(point.again), 0)
                continue
            summary = analysed.summary(experiment, point, experiment.headline)
            reached = summary.relative_half_width if summary is not None else None
            wide += reached is None or reached > precision
    ended = dict.fromkeys(each.status for each in analysed.experiments if each.status != "done")
    parts = [f"a run is {' and '.join(ended)}"] if ended else []
    if lacking:
        rest = f", and {format_count(without)} of the points without any" if without else ""
        parts.append(
            f"{_counted(lacking, 'sample')} more {'was' if lacking == 1 else 'were'} asked for{rest}"
        )
    parts += [f"{_counted(wide, 'point')} did not reach the precision asked for"] if wide else []
    return parts


def _repeated(results: Results) -> list[str]:
    """Say from which run the answers are where there is a choice."""
    counts = Counter(results.names)
    return [
        f"{name} is here from {count} runs; the answers are drawn from the last one given."
        for name, count in counts.items()
        if count > 1
    ]


def _counted(number: int, noun: str) -> str:
    return f"{format_count(number)} {noun}" + ("" if number == 1 else "s")


def _facts(results: Results) -> list[tuple[str, str]]:
    """Return where, when and how, in a few words each."""
    if not results.parts:
        return []
    first = results.parts[0]
    environment = first.environment
    model = (environment.get("cpu") or {}).get("model")
    release = (environment.get("kernel") or {}).get("release")
    runs = list(dict.fromkeys(each.run_id for each in results.parts))
    profile = results.experiments[0].settings.get("profile") if results.experiments else None
    facts = [
        ("Processor", model),
        ("Kernel", f"Linux {release}" if release else None),
        ("Hypervisor", environment.get("hypervisor")),
        ("Started", first.started.replace("T", " ").replace("+00:00", " UTC")),
        ("Profile", profile),
        ("Run" if len(runs) == 1 else "Runs", ", ".join(runs)),
        ("Measured by", ", ".join(dict.fromkeys(filter(None, map(build_name, results.experiments))))),
    ]
    return [(name, str(value)) for name, value in facts if value]


def _downloads(results: Results) -> list[Download]:
    room, found = DATA_ROOM, []
    for index, experiment in enumerate(results.experiments):
        packed = embed.pack(experiment, room)
        room -= packed.size
        rows = packed.header["rows"]
        if rows:
            label = f"{experiment.experiment}: {_counted(rows, 'sample')} (CSV)"
            name = re.sub(r"[^\w.-]+", "-", f"oscope-{experiment.experiment}-{experiment.run_id}.csv")
            found.append(Download(f"samples-{index}", label, name, packed, _left_out(experiment, packed)))
    return found


def _left_out(experiment: ExperimentResults, packed: Packed) -> str:
    if not packed.left_out:
        return ""
    columns = ", ".join(packed.left_out)
    return (
        f"{experiment.experiment}: the file has every sample, but there was no room in this page for the "
        f"columns {columns}. `oscope export {experiment.run_id} --format parquet` gives them all."
    )
