"""The pages: what the store has, put into templates. Tables and figures are the report's own."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import sqlalchemy as sa
from markupsafe import Markup

from oscope.figures.analysed import Analysed
from oscope.model.errors import UsageError
from oscope.model.experiment import Lab
from oscope.model.formatting import format_count
from oscope.model.samples import Columns, Results
from oscope.report import build, page, theme
from oscope.report.first_screen import first_screen
from oscope.report.view import comparing, history_page
from oscope.report.view.catalogue import Filter, Run, choices, read_runs, suggested
from oscope.report.view.live import LiveRuns
from oscope.report.view.page_text import Wording
from oscope.statistics import injected
from oscope.storage import schema
from oscope.storage.store import Store

_OWN = Path(__file__).parent / "templates"
_REPORT = Path(page.__file__).parent / "templates"
_KEPT_REPORTS = 4
_RUN_ID = re.compile(r"(?<![\w/-])\d{8}-\d{6}-[0-9a-f]{4}(?![\w-])")


class Pages:
    """Makes pages of the store at `place`; for several threads."""

    def __init__(self, place: str | Path | None, labs: Sequence[Lab], wording: Wording) -> None:
        """Read the store at `place`; the answers are those of `labs`, `wording` is the commands' own."""
        self.place = place
        self._labs = labs
        self._wording = wording
        self.live = LiveRuns(place)
        self._templates = _environment()
        self._reports: OrderedDict[tuple[str, str | None, int], build.Report] = OrderedDict()
        # Analysing takes a core for seconds: never two at a time, nor the same one twice.
        self.analysing = threading.Lock()

    def open(self) -> Store:
        """Open the store, whose database refuses every write."""
        return Store.read(self.place, read_only=True)

    def render(self, template: str, **context: Any) -> str:
        """Return the HTML of a page."""
        return self._templates.get_template(template).render(context)

    def message(self, text: str, remedy: str) -> str:
        """Return a page that says what went wrong, and how to fix it."""
        return self.render("message.html.j2", text=text, remedy=remedy)

    def runs(self, query: Mapping[str, str]) -> str:
        """Return the list of the runs that pass the filter of a query."""
        filters = Filter.read(query)
        with self.open() as store:
            every = read_runs(store)
        shown = [run for run in every if filters.passes(run)]
        return self.render(
            "runs.html.j2",
            runs=shown,
            count=len(every),
            filters=filters,
            choices=choices(every),
            newest=every[0].entry.id if every else "",
            chosen=suggested(shown),
        )

    def newest(self) -> str | None:
        """Return the id of the newest run; None where there is none."""
        query = sa.select(schema.run.c.id).order_by(schema.run.c.started_ns.desc(), schema.run.c.id.desc())
        with self.open() as store, store.reading() as connection:
            return connection.scalar(query.limit(1))

    def run(self, store: Store, run_id: str) -> str:
        """Return the page of a run: how far it is, its only experiment, or the list of its experiments."""
        run = find_run(store, run_id)
        if run.is_unfinished:
            state = self.live.get(run_id).state(-1)
            if state["status"] == "unfinished":
                return self.render("live.html.j2", run=run, state=state)
            run = find_run(store, run_id)
        if len(run.entry.experiments) == 1:
            return self._report_page(store, run, None)
        # Covariates show in which samples a delay was at work.
        columns: Columns = "all" if run.entry.has_injection else "metrics"
        results = store.results(run_id, columns=columns)
        analysed = Analysed.of(results)
        return self.render(
            "run.html.j2",
            run=run,
            title=build.title(results, self._labs),
            verdict=build.verdict(analysed),
            injected=injected.banner(results.experiments),
            first=first_screen(analysed, lambda experiment, _section: anchor(experiment)),
            contents=_contents(results),
        )

    def experiment(self, store: Store, run_id: str, name: str) -> str:
        """Return the page of one experiment or inspection of a run."""
        run = find_run(store, run_id)
        if name not in run.entry.experiments:
            raise UsageError(f"run {run_id} has no experiment {name!r}", remedy="choose one of its page")
        return self._report_page(store, run, name)

    def _report_page(self, store: Store, run: Run, name: str | None) -> str:
        report = self.report(store, run, name)
        return self.render("experiment.html.j2", run=run, report=report, name=name)

    def compare(self, query: Mapping[str, str]) -> str:
        """Return two runs side by side, those of a query; without one only what can be chosen."""
        request = comparing.Request.read(query)
        with self.open() as store:
            every = read_runs(store)
            if not request.a or not request.b:
                a, b = suggested(every)
                request = replace(request, a=request.a or a, b=request.b or b)
                return self.render(
                    "compare.html.j2", runs=every, request=request, sides=(), compared=(), error=""
                )
            request = replace(request, a=store.resolve(request.a), b=store.resolve(request.b))
            sides = [find_run(store, run_id) for run_id in (request.a, request.b)]
            compared: list[comparing.Compared] = []
            error = ""
            try:
                compared = comparing.compare_runs(store, request)
            except UsageError as refused:
                error = str(refused)
        return self.render(
            "compare.html.j2", runs=every, request=request, sides=sides, compared=compared, error=error
        )

    def history(self, query: Mapping[str, str]) -> str:
        """Return the history of the experiment that a query names, or else of the newest run's first."""
        filters = Filter.read(query)
        metric = query.get("metric", "")
        with self.open() as store:
            entries = store.runs()
            names = sorted({name for entry in entries if entry.samples for name in entry.experiments})
            newest = next((entry.experiments[0] for entry in reversed(entries) if entry.samples), "")
            name = filters.experiment or newest
            found, error = None, ""
            try:
                if name:
                    chosen = history_page.entries_of(entries, name, filters.since)
                    found = history_page.history(store, chosen, name, metric, self._wording)
            except UsageError as refused:
                error = str(refused)
        return self.render(
            "history.html.j2",
            names=names,
            name=name,
            metric=metric,
            filters=filters,
            found=found,
            error=error,
        )

    def report(self, store: Store, run: Run, name: str | None) -> build.Report:
        """Return the report on one experiment or inspection of a run, or on all of it."""
        with self.analysing:
            key = (run.entry.id, name, _newest_event(store, run.entry.id))
            if key not in self._reports or run.is_unfinished:
                self._reports[key] = build.build(_only(_load(store, run, name), name), self._labs)
            self._reports.move_to_end(key)
            while len(self._reports) > _KEPT_REPORTS:
                self._reports.popitem(last=False)
            return self._reports[key]

    def whole_report(self, store: Store, run_id: str) -> str:
        """Return what `oscope report` writes of a run."""
        return page.render(self.report(store, find_run(store, run_id), None))


@dataclass(frozen=True)
class Content:
    """A line of a run's page: an experiment or inspection."""

    name: str
    title: str
    question: str
    counts: str
    missing: str

    @property
    def anchor(self) -> str:
        """The identifier of its row."""
        return anchor(self.name)


def anchor(experiment: str) -> str:
    """Return the identifier of an experiment's row in the list of a run."""
    return f"row-{build.slug(experiment)}"


def _contents(results: Results) -> list[Content]:
    found = []
    for each in results.experiments:
        samples, skipped = sum(map(len, each.points)), sum(p.skipped is not None for p in each.points)
        counts = f"{_counted(len(each.points), 'point')}, {_counted(samples, 'sample')}"
        missing = f"{_counted(skipped, 'point')} not measured" if skipped else ""
        found.append(Content(each.experiment, each.title or each.experiment, each.question, counts, missing))
    for one in results.inspections:
        missing = "" if one.result is not None else f"not made: {one.skipped}"
        found.append(Content(one.inspection, one.title, one.question, "inspection", missing))
    return found


def _counted(number: int, noun: str) -> str:
    return f"{format_count(number)} {noun}" + ("" if number == 1 else "s")


def find_run(store: Store, run_id: str) -> Run:
    """Return a run of the store by its id, which is there."""
    return next(run for run in read_runs(store) if run.entry.id == run_id)


def _newest_event(store: Store, run_id: str) -> int:
    query = sa.select(sa.func.max(schema.event.c.id)).where(schema.event.c.run_id == run_id)
    with store.reading() as connection:
        return connection.scalar(query) or 0


def _load(store: Store, run: Run, name: str | None) -> Results:
    """Return results of a run with all covariates: those of one experiment, where `name` is one."""
    is_inspection = name is not None and name in store.plan(run.entry.id).inspections
    columns: Columns = "all"
    return store.results(run.entry.id, experiment=None if is_inspection else name, columns=columns)


def _only(results: Results, name: str | None) -> Results:
    """Return what of the results is of the experiment or inspection `name`."""
    if name is None:
        return results
    return Results(
        tuple(each for each in results.experiments if each.experiment == name),
        tuple(each for each in results.inspections if each.inspection == name),
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(_OWN), jinja2.DictLoader(_shared())]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "prose": page.prose,
        "data": page.data,
        "rows": page.aligned_rows,
        "slug": page.slug,
        "count": format_count,
        "links": _link_runs,
    }
    environment.globals |= {
        # The theme's own declarations.
        "light": Markup(theme.variables("light")),  # noqa: S704
        "dark": Markup(theme.variables("dark")),  # noqa: S704
    }
    return environment


def _link_runs(text: Markup) -> Markup:
    """Return markup in which the ids of runs lead to their pages."""
    # Of a plain text: Markup would escape what is put in. An id is digits and letters alone.
    return Markup(_RUN_ID.sub(r'<a href="/runs/\g<0>">\g<0></a>', str(text)))  # noqa: S704


def _shared() -> dict[str, str]:
    """Return the templates of the report that these pages use: its tables and figures, its first screen."""
    first = "first.html.j2"
    return {"document.html.j2": _macros(), first: (_REPORT / first).read_text("utf-8")}


def _macros() -> str:
    """Return the macros that draw a table and a figure: the head of the report's template."""
    return (_REPORT / "report.html.j2").read_text(encoding="utf-8").partition("<!DOCTYPE html>")[0]


def static_files() -> dict[str, tuple[Path, str]]:
    """Return the files that pages load: their names, where they are, and their types."""
    own = _OWN.parent / "static"
    # The file itself: importing plotly's Python would take longer than reading it.
    bundle = Path(str(resources.files("plotly").joinpath("package_data", "plotly.min.js")))
    script, style = "text/javascript", "text/css"
    return {
        "report.css": (_REPORT / "report.css", style),
        "report.js": (_REPORT / "report.js", script),
        "view.css": (own / "view.css", style),
        "view.js": (own / "view.js", script),
        "theme.js": (own / "theme.js", script),
        "plotly.js": (bundle, script),
    }
