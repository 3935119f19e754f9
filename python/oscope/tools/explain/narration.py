"""Goes through a trace in order and gives each call its phase, its file and its purpose."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from oscope.tools.explain import argument_purposes, phases, start
from oscope.tools.explain.purposes import purpose
from oscope.tools.explain.reading import Call
from oscope.tools.explain.state import Process
from oscope.tools.explain.tasks import Image, Task, Tree


def narrate(tree: Tree) -> None:
    """Fill in the phases and purposes of all images of `tree`, and the files of their calls."""
    for image in tree.images:
        image.phases = phases.assign(image)
        image.purposes = [""] * len(image.calls)
    processes: dict[int, Process] = {}
    # A child begins with what its maker has open at that moment: all tasks are gone through together.
    for _, _, image, index in heapq.merge(
        *(_numbered(place, each) for place, each in enumerate(tree.images))
    ):
        call = image.calls[index]
        process = _process(image.task, processes)
        process.name_files(call)
        image.purposes[index] = _purpose(call, image.phases[index], process)
        process.take_in(call)


def _numbered(place: int, image: Image) -> Iterator[tuple[int, int, Image, int]]:
    # No two calls have the same number: nothing beyond it is compared.
    for index, call in enumerate(image.calls):
        yield call.number, place, image, index


def _process(task: Task, processes: dict[int, Process]) -> Process:
    """Return the process that `task` belongs to."""
    known = processes.get(id(task))
    if known is not None:
        return known
    maker = None if task.maker is None else _process(task.maker, processes)
    if maker is not None and task.kind == "thread":
        process = maker
    else:
        process = Process() if maker is None else maker.copy()
    processes[id(task)] = process
    return process


def _purpose(call: Call, phase: str, process: Process) -> str:
    return start.describe(call, phase, process) or argument_purposes.describe(call) or purpose(call.name).text
