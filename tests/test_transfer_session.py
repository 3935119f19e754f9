"""`oscope transfer` as a command line: how it becomes its program, what it refuses and describes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli_driver import ROOT, CommandLine
from command_tree import commands
from transfer_pair import LIMIT_S, TRUSTED, Pair, put
from waiting import wait_until


@pytest.fixture
def oscope(real_probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line with the built probe, in a folder of its own."""
    folder = tmp_path / "here"
    folder.mkdir()
    return CommandLine(folder, {"OSCOPE_PROBE": str(real_probe)})


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (("send", "a", "b"), "'b' is not ADDR:PORT"),
        (("send", "a", "host:70000"), "'host:70000' is not ADDR:PORT"),
        (("send", "host:1"), "missing argument 'FILE'"),
        (("send", "file"), "missing argument 'ADDR:PORT'"),
        (("send", "-x", "a b", "h:1"), "no such option: -x"),
        (("send", "a", "h:1", "--stall", "0s"), "leaves no time"),
        (("send", "a", "h:1", "--method", "magic"), "magic"),
        (("send", "a", "h:1", "--no-verify", "--digest", "sha512"), "exclude each other"),
        (("send", "a", "h:1", "--descriptors"), "about the pages of a device"),
        (("send", "a", "h:1", "--device", "mmap", "--method", "mmap"), "exclude each other"),
        (("send", "a", "h:1", "--device", "mmap", "--digest", "blake3"), "by sha512, not blake3"),
        (("send", "a", "h:1", "--device", "mmap", "--key", "k"), "exclude each other"),
        (("send", "a", "h:1", "--json", "/nonexistent/file"), "does not exist"),
        (("receive",), "--into"),
        (("receive", "--into", "d", "--listen", "7025"), "'7025' is not ADDR:PORT"),
        (("receive", "--into", "d", "--method", "zerocopy"), "zerocopy"),
        (("receive", "--into", "d", "--key", "-"), "--key - is for send alone"),
        (("receive", "--into", "d", "--key", "k", "--trusted-network"), "exclude each other"),
        (("receive", "--into", "d", "--device", "fcntl", "--method", "mmap"), "exclude each other"),
        (("fetch",), "no such command 'fetch'"),
    ],
)
def test_wrong_requests_start_nothing(given: tuple[str, ...], reported: str, oscope: CommandLine) -> None:
    answer = oscope("transfer", *given)
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert line.startswith("oscope: ")
    assert reported in line
    assert list(oscope.folder.iterdir()) == []


def test_json_leaves_standard_output_to_the_data(oscope: CommandLine) -> None:
    pair = Pair(oscope)
    put(oscope.folder, "d/a", b"contents")
    (oscope.folder / "d/link").symlink_to("a")
    try:
        sender, _ = pair.move("d", "--links", "skip", "--json", "-")
        (line,) = sender.err.splitlines()
        assert "link" in line
        data = json.loads(sender.out)
        assert set(data) == {"sender", "receiver", "digest_kind", "digest", "left_out"}
        assert set(data["sender"]) == set(data["receiver"]) == {
            "files", "links", "folders", "skipped", "bytes", "holes", "total_bytes", "time_ns", "calls",
            "cpu_ns", "voluntary", "involuntary", "method",
        }  # fmt: skip
        assert data["digest_kind"] == "blake3"
        assert len(data["digest"]) == 64
        sender, _ = pair.move("d/a", "--json", "file")
        assert sender.code == 0, sender
        assert sender.out.startswith("side")
        assert json.loads((oscope.folder / "file").read_text())["digest"] == data["digest"]
    finally:
        pair.close()


@pytest.mark.parametrize("command", ["send", "receive"])
def test_every_option_is_explained_in_the_documentation(command: str, oscope: CommandLine) -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    section = page.partition("\n## oscope transfer\n")[2].partition("\n## ")[0]
    assert f"oscope transfer {command} " in section
    options = set(re.findall(r"^ +(--[-\w]+)", oscope("transfer", command, "--help").out, re.MULTILINE))
    assert {"--method", "--no-verify", "--device", "--descriptors"} <= options
    (known,) = (own.params for words, own in commands() if words == ("transfer", command))
    assert options == {each.opts[0] for each in known if each.opts[0].startswith("--")}
    for option in options:
        assert f"`{option}" in section, option


def test_without_a_verb_there_is_help(oscope: CommandLine) -> None:
    answer = oscope("transfer")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == oscope("transfer", "--help").out
    assert "Noise NNpsk0" in answer.out


@pytest.mark.parametrize(
    "words",
    [
        ("--verbose", "transfer", "send"),
        ("transfer", "--store", "s.db", "send"),
        ("transfer", "send", "--verbose"),
    ],
)
def test_the_options_of_every_command_stand_anywhere(words: tuple[str, ...], oscope: CommandLine) -> None:
    answer = oscope(*words, *TRUSTED, "missing", "127.0.0.1:1")
    assert answer.code == 1, answer
    assert answer.err.startswith("oscope: missing: ")


def test_a_program_that_is_missing_is_told(oscope: CommandLine) -> None:
    answer = oscope("transfer", "send", "a", "h:1", OSCOPE_PROBE="/nonexistent")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("oscope: OSCOPE_PROBE=/nonexistent is not a program: ")


def test_nothing_is_imported_before_the_program_starts(oscope: CommandLine) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "oscope", "transfer", "send", "--help"],
        env=oscope.all_variables({}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout.startswith("Send files and folders.")
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    own = {name for name in loaded if name.split(".")[0] == "oscope"}
    assert own == {
        "oscope", "oscope.model", "oscope.model.descriptors", "oscope.model.errors", "oscope.model.version",
        "oscope.probe", "oscope.probe.programs",
    }  # fmt: skip
    assert loaded.isdisjoint({"typing", "signal", "subprocess", "pathlib", "typer"})


def test_a_receiver_in_the_background_outlives_who_started_it(oscope: CommandLine) -> None:
    receive = ("transfer", "receive", *TRUSTED, "--once", "--listen", "127.0.0.1:0", "--into", "into")
    begin = '"$@" >out 2>err </dev/null &'
    subprocess.run(
        ["sh", "-c", begin, "sh", sys.executable, "-m", "oscope", *receive],
        cwd=oscope.folder,
        env=oscope.all_variables({}),
        timeout=LIMIT_S,
        check=True,
    )
    heard = oscope.folder / "err"
    wait_until(lambda: heard.exists() and "listening on" in heard.read_text(), "it listens")
    put(oscope.folder, "a", b"contents")
    address = heard.read_text().split()[-1]
    sent = oscope("transfer", "send", *TRUSTED, "a", address)
    assert sent.code == 0, sent
    assert (oscope.folder / "into" / "a").read_bytes() == b"contents"


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("oscope transfer send 'a b' h:1", "program:transfer:send:a b:h:1"),
        ("oscope transfer", "program:transfer"),
        ("./link transfer send", "program:transfer:send"),
        ("oscope", "python"),
        ("oscope run transfer", "python:run:transfer"),
        ("oscope --verbose transfer", "python:--verbose:transfer"),
        ("oscope transfer send --store=s", "python:transfer:send:--store=s"),
        ("oscope transfer send <&-", "python:transfer:send"),
        ("oscope transfer send 2>&-", "python:transfer:send"),
        ("OSCOPE_PROBE=/nonexistent oscope transfer send", "python:transfer:send"),
        ("OSCOPE_PROBE=./other oscope transfer send", "other:transfer:send"),
    ],
)
def test_the_installed_script_starts_python_only_where_it_has_to(
    line: str, becomes: str, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(ROOT / "oscope.data/scripts/oscope", folder / "oscope")
    for path, says in (
        (folder / "oscope-probe", "program"),
        (folder / "oscope-python", "python"),
        (tmp_path / "other", "other"),
    ):
        path.write_text(f'#!/bin/sh\nIFS=:\nset -- {says} "$@"\necho "$*"\n')
        path.chmod(0o755)
    (tmp_path / "link").symlink_to("bin/oscope")
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=tmp_path,
        env=path,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout == f"{becomes}\n"
