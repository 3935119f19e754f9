"""What `oscope bench --git` does once its options are read: build, measure, show; or bisect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from oscope.cli import benching
from oscope.cli.benching import Files
from oscope.cli.errors import DONE, note
from oscope.cli.kernel_progress import watching
from oscope.cli.measure_with_progress import interrupted
from oscope.cli.views.bench import print_bisection
from oscope.model.errors import OscopeError, UsageError
from oscope.model.revision import Revision
from oscope.model.samples import ExperimentResults
from oscope.model.units import format_duration
from oscope.planning.plan import Plan
from oscope.programs.bisection import Bisection, search, sentences
from oscope.programs.export import bisection_export
from oscope.programs.repository import Repository
from oscope.programs.revisions import (
    RevisionRequest,
    revision_plan,
    revisions_of,
    step_plan,
    without_foreign_repository,
    workshop_again,
    workshop_for,
)
from oscope.programs.spec import EXPERIMENT, BenchSpec
from oscope.programs.worktrees import BuildError, Workshop
from oscope.report import terminal
from oscope.storage.store import Store, StoredEvent
from oscope.targets import git


@dataclass(frozen=True)
class Options:
    """`--git`, `--build` and `--bisect`."""

    names: tuple[str, ...]
    build: str | None
    bisect: bool

    def check(self) -> None:
        """Raise UsageError for options that have no meaning without `--git`."""
        for option, given in (("--build", self.build is not None), ("--bisect", self.bisect)):
            if given and not self.names:
                raise UsageError(f"{option} needs --git", remedy="write --git REV1..REV2")


class Builds:
    """Shows the builds."""

    @contextmanager
    def building(self, doing: str, number: int, expected: int, left_s: float | None) -> Iterator[None]:
        """Show what goes on meanwhile: which build of how many, and the time left if it is known."""
        of = f" ({number} of {expected})" if expected > 1 else ""
        left = "" if left_s is None else f", about {format_duration(max(round(left_s), 1))} left for builds"
        with watching() as listener:
            listener.begin(f"{doing}{of}{left}", None)
            yield

    def note(self, text: str) -> None:
        """Write a note as a line."""
        note(text)


@without_foreign_repository()
def start(options: Options, spec: BenchSpec, place: str | None, files: Files) -> int:
    """Measure the revisions, or bisect between two; return the exit code."""
    spec.conditions.check(spec.amount.precision, revisions=True, bisect=options.bisect)
    request = RevisionRequest.of(options.names, options.build, bisect=options.bisect, folder=Path.cwd())
    line = _line(request) if options.bisect else ()
    if options.bisect and (len(spec.commands) != 1 or spec.parameters):
        raise UsageError("--bisect takes one command, without parameters", remedy="leave the others out")
    for text in request.notes(spec.commands):
        note(text)
    with Store.open(place) as store, workshop_for(request, spec.context, Builds()) as workshop:
        try:
            plan = revision_plan(workshop, request.sides, spec)
        except BuildError as error:
            _print_last_lines(error)
            raise
        if not options.bisect:
            return benching.measure_into(store, plan, files)
        (experiment,) = plan.experiments
        span = (line[0].commit, line[-1].commit)
        recorded = replace(
            experiment, revisions=workshop.revisions(request.sides).step(request.sides, span, ())
        )
        bisection = Bisection(line)
        first = replace(plan, experiments=(recorded,))
        _learn(bisection, store, benching.measure(store, first).run_id)
        return _bisect(bisection, first, workshop, store, files)


def resume(run: str, place: str | None, files: Files) -> int:
    """Go on with a bench that was interrupted, or with the bisection that it is a step of."""
    run_id, plan = benching.interrupted_plan(run, place)
    if plan.experiments[0].revisions is None:
        with Store.open(place) as store:
            return benching.measure_into(store, plan, files, resume=run_id)
    return _resume(plan, run_id, place, files)


@without_foreign_repository()
def _resume(plan: Plan, run_id: str, place: str | None, files: Files) -> int:
    revisions = revisions_of(plan)
    with Store.open(place) as store, workshop_again(plan, Builds()) as workshop:
        if revisions.span is None:
            return benching.measure_into(store, plan, files, resume=run_id)
        first, *_, last = revisions.sides
        line = (first, *workshop.repository.between(first, last))
        bisection = Bisection(line)
        for earlier in revisions.earlier:
            _learn(bisection, store, earlier)
        if _results(store, run_id).status != "done":
            benching.measure(store, plan, resume=run_id)
        _learn(bisection, store, run_id)
        return _bisect(bisection, plan, workshop, store, files)


def _bisect(bisection: Bisection, plan: Plan, workshop: Workshop, store: Store, files: Files) -> int:
    workshop.expected = bisection.expected_steps + 1
    span = (bisection.line[0].commit, bisection.line[-1].commit)

    def measure(revisions: Sequence[Revision]) -> ExperimentResults:
        sides = (bisection.line[0], *revisions, bisection.line[-1])
        earlier = tuple(step.run_id for step in bisection.steps)
        step = step_plan(plan, workshop, sides, span=span, earlier=earlier, number=len(earlier))
        return _results(store, benching.measure(store, step).run_id)

    if bisection.differ:
        count = bisection.commits
        note(f"the ends differ: {count} commit{'' if count == 1 else 's'} may have made the change")
    try:
        search(bisection, measure, note)
    except KeyboardInterrupt:
        raise interrupted(bisection.steps[-1].run_id, store, benching.COMMAND) from None
    return _conclude(bisection, plan.experiments[0].metrics[0], workshop.repository, store, files)


def _conclude(bisection: Bisection, metric: str, repository: Repository, store: Store, files: Files) -> int:
    """Show and store what was found, and write the files asked for."""
    lines = [*sentences(bisection, metric), *_merge_hint(bisection, repository)]
    last = bisection.steps[-1].run_id
    found = {"sentences": lines, **bisection.to_object()}
    store.add(last, (), [StoredEvent("bisection", found)])
    out = terminal.console(to_standard_error=files.take_standard_output)
    print_bisection(bisection, lines, out)
    terminal.print_stored(last, out, store.option)
    files.write(store.results(last), lambda kind: bisection_export(found, kind))
    return DONE


def _merge_hint(bisection: Bisection, repository: Repository) -> list[str]:
    """Say how to look into a merge, if the commit found is one."""
    group = bisection.group
    if not bisection.differ or group.after - group.before != 1:
        return []
    found = bisection.line[group.after]
    parents = repository.parents(found.commit)
    if len(parents) < 2:
        return []
    base = git.find(repository.top, "merge-base", *parents[:2])
    if not base:
        return [f"{found.short} is a merge"]
    return [f"{found.short} is a merge; to look into it: --git {base[:12]}..{parents[1][:12]} --bisect"]


def _learn(bisection: Bisection, store: Store, run_id: str) -> None:
    bisection.learn(_results(store, run_id))


def _results(store: Store, run_id: str) -> ExperimentResults:
    found = store.results(run_id).get(EXPERIMENT)
    if found is None:
        raise OscopeError(f"run {run_id} has no {EXPERIMENT}", remedy="begin a new bisection")
    return found


def _line(request: RevisionRequest) -> tuple[Revision, ...]:
    first, last = request.sides
    return (first, *request.repository.between(first, last))


def _print_last_lines(error: BuildError) -> None:
    for line in error.lines:
        note(f"its build: {line}")
