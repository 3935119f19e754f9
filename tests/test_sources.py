"""The list of the original documents: each step leads to a command, an experiment and a section."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

import synthetic
import synthetic_disk
import synthetic_fs
import synthetic_ipc
import synthetic_kernel
import synthetic_memory
import synthetic_transfer
from cli_driver import CommandLine
from oscope import assignments, labs
from oscope.assignments import sources
from oscope.assignments.model import Document, Step
from oscope.cli import application
from oscope.cli.request import parse_settings, select
from oscope.model.errors import UsageError
from oscope.model.factors import Profile
from oscope.model.samples import Results
from oscope.planning.plan import make_plan
from oscope.probe.catalogue import Catalogue, load

ROOT = Path(__file__).parent.parent
STEPS = [(document, step) for document in assignments.DOCUMENTS for step in document.steps]
COMMANDS = [
    pytest.param(document, command, id=f"{document.key}: {command}")
    for document in assignments.DOCUMENTS
    for command in dict.fromkeys(command for step in document.steps for command in step.commands)
]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load()


@pytest.fixture(scope="module")
def titles() -> dict[str, set[str]]:
    """Return the titles of all sections that each lab draws of invented results."""
    surveys = {
        "syscalls": synthetic.survey(),
        "disk": synthetic_disk.survey(),
        "memory": synthetic_memory.survey(),
        "ipc": synthetic_ipc.survey(),
        "transfer": synthetic_transfer.survey(),
        "kernel": synthetic_kernel.survey(),
        "fs": synthetic_fs.survey(),
    }
    found = {
        name: {section.title for section in labs.lab(name).sections(results)}
        for name, results in surveys.items()
    }
    return {**found, "tools": {inspection.title for inspection in labs.lab("tools").inspections}}


def test_the_page_is_what_the_declarations_say() -> None:
    written = (ROOT / "docs/sources.md").read_text(encoding="utf-8")
    assert written == sources.page(), "oscope sources --format md --output docs/sources.md"


def test_each_document_and_step_has_a_key_of_its_own() -> None:
    keys = [document.key for document in assignments.DOCUMENTS]
    assert keys == ["memory", "syscall", "disk", "transfer", "ipc"]
    for document in assignments.DOCUMENTS:
        steps = [step.key for step in document.steps]
        assert len(set(steps)) == len(steps)


@pytest.mark.parametrize(("document", "step"), STEPS, ids=lambda each: getattr(each, "key", None))
def test_a_step_is_measured_by_what_its_assignment_runs(document: Document, step: Step) -> None:
    assert set(step.measured) <= set(document.names)
    for name in step.measured:
        assert labs.named(name).name == name


@pytest.mark.parametrize(("document", "step"), STEPS, ids=lambda each: getattr(each, "key", None))
def test_a_steps_sections_are_in_the_labs_answers(
    document: Document, step: Step, titles: dict[str, set[str]]
) -> None:
    del document
    for answer in step.answers:
        assert answer.title in titles[answer.lab]


@pytest.mark.parametrize("document", assignments.DOCUMENTS, ids=lambda each: each.key)
def test_every_experiment_of_an_assignment_is_of_some_step(document: Document) -> None:
    measured = {name for step in document.steps for name in step.measured}
    assert set(document.names) == measured


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("document", assignments.DOCUMENTS, ids=lambda each: each.key)
def test_an_assignment_plans_points_that_the_probe_knows(
    document: Document, profile: Profile, catalogue: Catalogue
) -> None:
    plan = make_plan(document.experiments, catalogue, profile=profile, seed=1)
    assert all(each.points for each in plan.experiments)
    assert len({each.name for each in plan.experiments}) == len(plan.experiments)


@pytest.mark.parametrize(("document", "command"), COMMANDS)
def test_a_printed_command_is_understood(
    document: Document, command: str, catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del document
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    values = _parsed(words)
    if words[0] == "run":
        # Names, factors and levels, too.
        chosen = select(values["names"], "full")
        make_plan(
            chosen.experiments,
            catalogue,
            profile="full",
            settings=parse_settings(values["settings"] or ()),
            seed=1,
            inspections=chosen.inspections,
        )


def _parsed(words: list[str]) -> dict[str, Any]:
    """Return the values that the real parser gives a command's parameters; an error where it refuses them."""
    command = typer.main.get_command(application([words[0]])).commands[words[0]]  # type: ignore[attr-defined]
    name, *rest = words
    while (below := getattr(command, "commands", None)) and rest and rest[0] in below:
        name, *rest = rest
        command = below[name]
    return dict(command.make_context(name, rest).params)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(typer.TyperException):
        _parsed(["disk", "write", "sample", "--blocks", "3"])


def test_the_list_names_each_document_with_its_command(oscope: CommandLine) -> None:
    reported = oscope("sources")
    assert reported.code == 0
    for document in assignments.DOCUMENTS:
        assert document.title in " ".join(reported.out.split())
        assert document.command in reported.out


@pytest.mark.parametrize("document", assignments.DOCUMENTS, ids=lambda each: each.key)
def test_the_steps_of_a_document_are_listed_with_whole_commands(
    document: Document, oscope: CommandLine
) -> None:
    reported = oscope("sources", document.key)
    assert reported.code == 0
    lines = reported.out.splitlines()
    for step in document.steps:
        for command in step.commands:
            assert f"  oscope {command}" in lines


def test_an_unknown_document_gives_the_nearest(oscope: CommandLine) -> None:
    refused = oscope("sources", "disc")
    assert (refused.code, refused.err) == (2, "oscope: there is no document 'disc': did you mean 'disk'?\n")
    with pytest.raises(UsageError):
        assignments.document("nothing-like-it")


def test_results_of_no_experiment_are_no_error() -> None:
    for document in assignments.DOCUMENTS:
        for name in {answer.lab for step in document.steps for answer in step.answers}:
            assert isinstance(labs.lab(name).sections(Results(())), list)
