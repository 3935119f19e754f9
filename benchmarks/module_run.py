"""One benchmark module in a process of its own: `python module_run.py MODULE EFFORT PART...`.

Writes one JSON object a line to standard output: a part begins, a figure, a part could not be measured or
failed, a part ends. Whatever else is printed goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

# Some modules share helpers with the tests.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

from bars import Bench, Effort, NotMeasured, Part
from measuring import BIN, ROOT

MOST_WORDS = 300
Event = dict[str, Any]


def parts_of(module: str) -> tuple[Part, ...]:
    """Return what a module measures."""
    found: tuple[Part, ...] = importlib.import_module(module).PARTS
    return found


def run(parts: Sequence[Part], effort: Effort, indices: Sequence[int]) -> Iterator[Event]:
    """Measure some parts of a module; what fails is reported, and the next part begins."""
    with ExitStack() as stack:
        bench = Bench(effort, stack)
        for index in indices:
            part = parts[index]
            yield {"begin": index}
            before = cpu_seconds()
            try:
                for figure in part.figures(bench):
                    yield {
                        "bar": figure.bar.name,
                        "value": float(figure.value),
                        "interval": figure.interval,
                        "detail": figure.detail,
                    }
            except NotMeasured as error:
                yield {"unmeasured": index, "why": str(error)}
            except Exception as error:  # noqa: BLE001 - any of them is the part's, and the next one is tried.
                traceback.print_exc()
                yield {"failed": index, "why": words_of(error)}
            yield {"end": index, "cpu_s": cpu_seconds() - before}


def cpu_seconds() -> float:
    """Return what this process and its children that have ended used of the CPUs."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def words_of(error: BaseException) -> str:
    """Return an error in one short line; of a command that failed, also what it said last."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, subprocess.CalledProcessError):
        last = error.stderr or ""
        last = last.decode(errors="replace") if isinstance(last, bytes) else last
        words = [error.cmd] if isinstance(error.cmd, str) else [Path(str(word)).name for word in error.cmd]
        text = (
            f"{' '.join(words[:4])} ended with {error.returncode}: {''.join(last.strip().splitlines()[-1:])}"
        )
    for place in (BIN, ROOT):
        # Where the checkout is says nothing to who reads the page of results.
        text = text.replace(f"{place}/", "")
    text = " ".join(text.split())
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]} ..."


def main() -> int:
    """Measure, and write what comes of it."""
    module, effort, *indices = sys.argv[1:]
    # What the runner stops ends as by Ctrl-C, so that nothing is left behind. SIGINT may be ignored: a shell
    # has it so for what it starts in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with os.fdopen(os.dup(1), "w", buffering=1) as out:
        os.dup2(2, 1)
        try:
            for event in run(parts_of(module), Effort[effort], [int(index) for index in indices]):
                out.write(json.dumps(event) + "\n")
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
