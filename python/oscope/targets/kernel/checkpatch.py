"""The three things asked of a patch: it applies, the kernel's checkpatch.pl has nothing to say, it builds."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.targets.kernel import build, modules, source, tools
from oscope.targets.kernel.kernel import Kernel
from oscope.targets.kernel.listener import Listener
from oscope.targets.kernel.patches import Patch, stage
from oscope.targets.kernel.recipe import Recipe
from oscope.targets.kernel.source import Source

_TOTAL = re.compile(r"^total: (\d+) errors, (\d+) warnings, (\d+) checks, (\d+) lines checked$", re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """What one of the three found."""

    name: str
    passed: bool
    found: str
    findings: str = ""
    """What checkpatch.pl said of single lines."""


def style(patch: Patch, origin: Source) -> Check:
    """Run the source's `scripts/checkpatch.pl --strict` on the patch. Raises OscopeError if it cannot run."""
    tools.require(tools.CHECKING)
    with tempfile.NamedTemporaryFile(suffix=".patch") as file:
        file.write(patch.text)
        file.flush()
        answer = tools.run(
            ["perl", "scripts/checkpatch.pl", "--strict", "--no-color", file.name], cwd=str(origin.root)
        )
        output = answer.stdout.decode(errors="replace").replace(file.name, f"{patch.name}.patch")
    totals = _TOTAL.search(output)
    if totals is None:
        messages = (output + answer.stderr.decode(errors="replace")).strip().splitlines()
        raise OscopeError(
            f"{origin.root}/scripts/checkpatch.pl fails: {messages[-1] if messages else 'it says nothing'}"
        )
    errors, warnings, checks, lines = map(int, totals.groups())
    found = f"{errors} errors, {warnings} warnings, {checks} checks in {lines} lines"
    return Check("checkpatch", errors == warnings == checks == 0, found, output[: totals.start()].strip())


def applies(patch: Patch, origin: Source, note: Callable[[str], None]) -> Check:
    """Apply the patch to copies of the source's files."""
    fuzzy: list[str] = []

    def hear(text: str) -> None:
        fuzzy.append(text)
        note(text)

    with tempfile.TemporaryDirectory() as staging:
        try:
            stage([patch], origin.root, Path(staging), hear)
        except OscopeError as error:
            return Check("applies", passed=False, found=error.message)
    added, removed = patch.lines()
    files = len(patch.files())
    found = f"{files} file{'' if files == 1 else 's'}, {added} lines added, {removed} removed"
    return Check("applies", passed=True, found=f"{found}{f', {len(fuzzy)} hunks with fuzz' if fuzzy else ''}")


def builds(recipe: Recipe, listener: Listener, jobs: int | None = None) -> tuple[Check, Kernel | None]:
    """Build the kernel with the patch."""
    try:
        kernel = build.build(recipe, listener, jobs, module_sources=modules.NONE)
    except OscopeError as error:
        return Check("builds", passed=False, found=str(error)), None
    return Check("builds", passed=True, found=f"{kernel.id}, release {kernel.release}"), kernel


def check(recipe: Recipe, listener: Listener, jobs: int | None = None) -> list[Check]:
    """Return what the three found of the recipe's only patch; what does not apply is not built."""
    [patch] = recipe.patches
    source.ready(recipe.source, listener)
    found = [applies(patch, recipe.source, listener.note), style(patch, recipe.source)]
    if found[0].passed:
        found.append(builds(recipe, listener, jobs)[0])
    return found
