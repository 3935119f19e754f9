"""Carries out `oscope kernel source|build|list|check-patch`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from oscope.cli.errors import note
from oscope.cli.kernel_progress import watching
from oscope.model.errors import OscopeError
from oscope.report import terminal
from oscope.targets.kernel import build as building
from oscope.targets.kernel import built, checkpatch, modules, recipe
from oscope.targets.kernel import source as sources
from oscope.targets.kernel.kernel import Kernel

_MEBIBYTE = 1 << 20


def make_source_ready(tree: Path | None) -> None:
    """Make the source ready and print where it is."""
    found = sources.find(tree)
    with watching() as listener:
        root = sources.ready(found, listener)
    note(found.label)
    print(root)


def build(
    patches: Sequence[str],
    fragments: Sequence[str],
    *,
    debug: bool,
    padded: bool,
    tree: Path | None,
    jobs: int | None,
) -> None:
    """Build a kernel, and print its id, name and image with tabs between them."""
    made = recipe.make(patches, fragments, debug=debug, tree=tree)
    if padded:
        made = made.padded()
    kept = built.load(made.id)
    with watching() as listener:
        kernel = building.build(made, listener, jobs)
    if kept is None:
        [entry] = [entry for entry in built.entries() if entry.kernel.id == kernel.id]
        work = entry.work
        note(f"{work.steps} files made in {work.seconds:.0f} s, {work.cpu_seconds:.0f} s of CPU time")
    print(f"{kernel.id}\t{kernel.name}\t{kernel.image}")


def show_list(*, as_json: bool) -> None:
    """Print the kernels that are built."""
    entries = built.entries()
    if as_json:
        shown = [
            entry.kernel.describe()
            | {
                "image": str(entry.kernel.image),
                "made": entry.made.isoformat(),
                "size_bytes": entry.size_bytes,
            }
            for entry in entries
        ]
        print(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    if not entries:
        note("no kernel is built: oscope kernel build")
        return
    now = datetime.now(UTC)
    columns = [
        ["id", *(entry.kernel.id for entry in entries)],
        ["name", *(entry.kernel.name for entry in entries)],
        ["release", *(entry.kernel.release for entry in entries)],
        ["modules", *(_modules(entry.kernel) for entry in entries)],
        terminal.aligned(["MiB", *(f"{entry.size_bytes / _MEBIBYTE:.1f}" for entry in entries)]),
        ["built", *(_age((now - entry.made).total_seconds()) for entry in entries)],
    ]
    if len(sources := {entry.kernel.source for entry in entries}) > 1:
        columns.append(["source", *(entry.kernel.source for entry in entries)])
    out = terminal.console()
    terminal.print_columns(columns, out, wrap_last=True)
    where = f"Built from {sources.pop()}. " if len(sources) == 1 else ""
    out.print()
    terminal.print_prose(f"{where}oscope run NAME --on guest:ID measures under one.", out)


def check_patch(patch: str, tree: Path | None, jobs: int | None) -> None:
    """Print what the three checks found.

    Raises OscopeError with the first that failed, in one line.
    """
    made = recipe.make([patch], tree=tree)
    with watching() as listener:
        checks = checkpatch.check(made, listener, jobs)
    out = terminal.console()
    for check in checks:
        if check.findings:
            print(check.findings, end="\n\n")
    columns = [
        ["check", *(check.name for check in checks)],
        ["result", *("passed" if check.passed else "failed" for check in checks)],
        ["found", *(check.found for check in checks)],
    ]
    terminal.print_columns(columns, out, wrap_last=True)
    for check in checks:
        if not check.passed:
            raise OscopeError(f"{made.patch_names[0]}: {check.name} failed: {check.found}")


def _modules(kernel: Kernel) -> str:
    """Return whether Oscope's modules are there for a kernel, in a word."""
    if kernel.modules:
        return "built"
    return "old" if kernel.folder is not None and (kernel.folder / modules.LINK).exists() else "none"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"
