"""What a shell completes beside options: experiments, labs, runs, documents. Nothing raises here."""

from __future__ import annotations

import os

from typer import _completion_shared

from oscope.model.errors import OscopeError

LOADING_IN_ZSH = '\n[[ $zsh_eval_context[-1] == loadautofunc ]] && _oscope_completion "$@"\n'
"""zsh runs the script as the completion itself at the first Tab; without this line that Tab has no effect."""


def complete_zsh_script() -> None:
    """Have the script that typer writes for zsh complete at the first Tab too: typer has no setting."""
    scripts = _completion_shared._completion_scripts
    if not scripts["zsh"].endswith(LOADING_IN_ZSH):
        scripts["zsh"] = scripts["zsh"].rstrip() + LOADING_IN_ZSH


def part_names(incomplete: str) -> list[tuple[str, str]]:
    """Return the experiments, inspections and labs that begin so, each with its title."""
    from oscope import labs  # noqa: PLC0415 - start-up

    found = {lab.name: lab.title for lab in labs.LABS}
    found |= {part.name: part.title for lab in labs.LABS for part in lab.parts}
    return [(name, title) for name, title in found.items() if name.startswith(incomplete)]


def run_ids(incomplete: str) -> list[tuple[str, str]]:
    """Return `last` and the runs of the store that begin so, the newest first, each with its experiments."""
    from oscope.storage.store import Store  # noqa: PLC0415 - start-up: the database

    try:
        with Store.read(os.environ.get("OSCOPE_STORE") or None) as store:
            entries = store.runs()
    except OscopeError:
        entries = ()
    found = [("last", "the newest run"), *((e.id, ", ".join(e.experiments[:3])) for e in reversed(entries))]
    return [each for each in found if each[0].startswith(incomplete)]


def document_keys(incomplete: str) -> list[tuple[str, str]]:
    """Return the keys of the original documents that begin so, each with its title."""
    from oscope import assignments  # noqa: PLC0415 - start-up

    return [(each.key, each.title) for each in assignments.DOCUMENTS if each.key.startswith(incomplete)]
