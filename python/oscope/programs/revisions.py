"""A bench of revisions: each commit built in a worktree, the commands measured in each, interleaved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError, UsageError
from oscope.model.factors import Level
from oscope.model.revision import FACTOR, Revision, Revisions
from oscope.planning.plan import Plan, PlannedExperiment
from oscope.probe.catalogue import Parameter as Factor
from oscope.programs.command import Command, CommandContext, names_in
from oscope.programs.experiment import bench_plan
from oscope.programs.repository import Repository
from oscope.programs.spec import BenchSpec
from oscope.programs.worktrees import BuildError, Watcher, Workshop
from oscope.targets import git

RANGE = ".."


@dataclass(frozen=True)
class RevisionRequest:
    """What `--git`, `--build` and `--bisect` ask for, with the commits that they mean."""

    repository: Repository
    sides: tuple[Revision, ...]
    build: str | None

    @classmethod
    def of(cls, names: Sequence[str], build: str | None, *, bisect: bool, folder: Path) -> RevisionRequest:
        """Return the request; UsageError where a name means no commit of the repository of `folder`."""
        repository = Repository.of(folder)
        parted = [part for name in names for part in _ends(name)]
        sides = tuple(repository.revision(name) for name in parted)
        if bisect and (len(names) != 1 or len(sides) != 2):
            raise UsageError("--bisect takes one range", remedy="write --git REV1..REV2 --bisect")
        if len(sides) < 2:
            raise UsageError(
                "--git names one revision only",
                remedy="give two, as --git REV1 --git REV2 or --git REV1..REV2",
            )
        for number, side in enumerate(sides):
            same = next((other for other in sides[:number] if other.commit == side.commit), None)
            if same is not None:
                raise UsageError(
                    f"--git: {same.name} and {side.name} are one commit, {side.short}",
                    remedy="name two commits",
                )
        return cls(repository, sides, build)

    def notes(self, commands: Sequence[Command]) -> Iterator[str]:
        """Yield what one has to know: what is not measured, and programs that are not of the revisions."""
        changed = self.repository.uncommitted()
        if changed:
            files = f"{changed} file{'' if changed == 1 else 's'}"
            yield f"the checkout has changes in {files} that are not committed: they are not measured"
        for command in commands:
            program = Path(command.words[0])
            if program.is_absolute() and program.is_relative_to(self.repository.top):
                yield (
                    f"{program} is a file of your checkout: all revisions run this same file; "
                    "name it by a relative path to run each revision's own"
                )


def _ends(name: str) -> list[str]:
    """Return the two revisions of a range, an omitted one being HEAD as git has it; else the name."""
    if RANGE not in name:
        return [name]
    first, dots, last = name.partition(RANGE)
    if last.startswith("."):
        raise UsageError(f"--git {name}: three dots are no range of commits", remedy="write REV1..REV2")
    return [first or "HEAD", last or "HEAD"] if dots else [name]


@contextmanager
def without_foreign_repository() -> Iterator[None]:
    """Forget variables such as GIT_DIR meanwhile, which hooks have: builds and commands would use that."""
    foreign = {name: os.environ.pop(name) for name in git.foreign_variables()}
    try:
        yield
    finally:
        os.environ.update(foreign)


@contextmanager
def workshop_for(request: RevisionRequest, context: CommandContext, watcher: Watcher) -> Iterator[Workshop]:
    """Give the workshop in which the revisions are built."""
    with Workshop.opened(
        request.repository,
        watcher,
        build=request.build,
        shell=context.shell,
        environment=context.environment,
    ) as workshop:
        workshop.expected = len(request.sides)
        yield workshop


def revision_plan(workshop: Workshop, sides: Sequence[Revision], spec: BenchSpec) -> Plan:
    """Build all revisions, and return the plan that measures the commands in each.

    Raises BuildError for a revision that does not build, UsageError and OscopeError as `bench_plan`.
    """
    context = spec.context
    if context.folder is not None and Path(context.folder).is_absolute():
        raise UsageError(
            f"--cwd {context.folder}: an absolute path is not in the worktrees",
            remedy="give a relative path",
        )
    folders = {side.short: workshop.checkout(side) / (context.folder or "") for side in sides}
    for side in sides:
        if not folders[side.short].is_dir():
            raise UsageError(
                f"--cwd {context.folder}: {side.label} has no such folder",
                remedy="name one that all have",
            )
    if context.shell is None:
        for side in sides:
            _check_programs(side, folders[side.short], spec.commands)
    found, _ = bench_plan(
        replace(spec, context=replace(context, folder=None)),
        checkouts={level: str(folder) for level, folder in folders.items()},
    )
    (experiment,) = found.experiments
    recorded = replace(
        experiment,
        title="Revisions",
        question="How long does each command take at each revision, and what does it use?",
        revisions=workshop.revisions(sides),
    )
    return replace(found, experiments=(recorded,))


def _check_programs(side: Revision, folder: Path, commands: Sequence[Command]) -> None:
    """Raise UsageError for a program that a revision should have and does not."""
    for command in commands:
        word = command.words[0]
        if "/" in word and not names_in([word]) and not (folder / word).exists():
            raise UsageError(
                f"{side.label} has no program {word}", remedy="check the path, or build it with --build CMD"
            )


@contextmanager
def workshop_again(plan: Plan, watcher: Watcher) -> Iterator[Workshop]:
    """Give the workshop of a run that resumes, at the paths that its plan has, with its revisions built.

    Raises UsageError where the repository or a commit is gone, BuildError where one does not build any more.
    """
    revisions = revisions_of(plan)
    repository = Repository.of(Path(revisions.repository))
    for side in revisions.sides:
        repository.revision(side.commit)
    with Workshop.opened(
        replace(repository, prefix=revisions.prefix),
        watcher,
        build=revisions.build,
        shell=revisions.build_shell,
        environment=revisions.environment,
        again=revisions.folder,
    ) as workshop:
        workshop.expected = len(revisions.sides)
        for side in revisions.sides:
            workshop.checkout(side)
        yield workshop


def revisions_of(plan: Plan) -> Revisions:
    """Return what a plan says of its revisions; UsageError where it measures none."""
    found = plan.experiments[0].revisions if plan.experiments else None
    if found is None:
        raise UsageError("the run measures no revisions", remedy="name a run of oscope bench --git")
    return found


def step_plan(
    plan: Plan,
    workshop: Workshop,
    sides: Sequence[Revision],
    *,
    span: tuple[str, str],
    earlier: tuple[str, ...],
    number: int,
) -> Plan:
    """Return `plan`, of one command at two ends, for these commits instead: a step of a bisection.

    The commits are built; raises BuildError where one does not build, or does not have the program. A step
    has a seed of its own: that of the ends and its number.
    """
    (experiment,) = plan.experiments
    revisions = revisions_of(plan)
    model = experiment.points[0], experiment.params[0]
    known = revisions.of(model[0])
    if known is None:
        raise OscopeError("the run does not say which revisions it measured", remedy="begin a new one")
    points, params = [], []
    for side in sides:
        workshop.checkout(side)
        points.append({**model[0], FACTOR: side.short})
        moved = _moved(model[1], str(workshop.worktree(known)), str(workshop.worktree(side)))
        program = moved["program"]
        if not Path(program).is_file():
            raise BuildError(side, f"has no program {Path(program).name} after its build")
        params.append(moved)
    step = replace(
        experiment,
        points=tuple(points),
        params=tuple(params),
        # Commits say what is the same code.
        digests=(),
        workload=_with_levels(experiment, [side.short for side in sides]),
        revisions=revisions.step(tuple(sides), span, earlier),
    )
    return replace(plan, seed=(plan.seed + number) % 2**32, experiments=(step,))


def _moved(params: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """Return the parameters with paths in the worktree `old` as those in `new`: both are as long."""

    def move(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(old, new)
        return [move(each) for each in value] if isinstance(value, list) else value

    return {name: move(value) for name, value in params.items()}


def _with_levels(experiment: PlannedExperiment, levels: Sequence[Level]) -> Any:
    workload = experiment.workload
    factor = Factor(FACTOR, "choice", levels[0], choices=tuple(map(str, levels)))
    others = [each for each in workload.parameters if each.name != FACTOR]
    return replace(workload, parameters=(*others, factor))
