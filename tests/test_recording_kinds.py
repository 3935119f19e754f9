"""Each kind of recording, whole and damaged, read by the command."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_driver import Answer, CommandLine
from oscope.model.errors import OscopeError
from oscope.tools.recording import kind
from oscope.tools.recording.recording_events import Findings, Resize, Size, Start
from oscope.tools.recording.source import Source

TEXT = "$ ls\r\n\x1b[1mone\x1b[0m two\r\n"
SEEN = "$ ls\none two\n"
HEADER = 'Script started on 2026-01-02 03:04:05+00:00 [COMMAND="ls" TERM="xterm" COLUMNS="30" LINES="5"]\n'
END = '\nScript done on 2026-01-02 03:04:06+00:00 [COMMAND_EXIT_CODE="0"]\n'
SCRIPT = f"{HEADER}{TEXT}{END}"
CAST2 = "\n".join(
    (
        json.dumps({"version": 2, "width": 30, "height": 5, "timestamp": 1}),
        json.dumps([0.5, "o", TEXT[:9]]),
        json.dumps([0.6, "i", "typed"]),
        json.dumps([0.7, "o", TEXT[9:]]),
        "",
    )
)
CAST3 = "\n".join(
    (
        json.dumps({"version": 3, "term": {"cols": 30, "rows": 5}}),
        "# a remark",
        json.dumps([0.5, "o", TEXT[:9]]),
        json.dumps([0.1, "o", TEXT[9:]]),
        json.dumps([0.1, "x", "0"]),
        "",
    )
)
EVENTS = [[0.1, TEXT[:9]], [0.2, TEXT[9:]]]
CAST1 = json.dumps({"version": 1, "width": 30, "height": 5, "duration": 1.5, "stdout": EVENTS}, indent=2)


@pytest.fixture
def session(probe: Path, tmp_path: Path) -> CommandLine:
    folder = tmp_path / "session"
    folder.mkdir()
    return CommandLine(folder, {"OSCOPE_PROBE": str(probe)})


def clean(session: CommandLine, content: bytes | str, *words: str) -> Answer:
    content = content.encode() if isinstance(content, str) else content
    (session.folder / "recording").write_bytes(content)
    return session("session", "clean", "recording", *words)


@pytest.mark.parametrize("target", ["recording", "./recording", "link"])
def test_a_recording_is_not_replaced_by_its_own_text(session: CommandLine, target: str) -> None:
    recording = session.folder / "recording"
    recording.write_bytes(b"a\rb\n")
    (session.folder / "link").symlink_to("recording")
    answer = session("session", "clean", "recording", "-o", target)
    assert (answer.code, answer.out) == (2, "")
    assert f"--output {target} would replace a file that is read: name another file" in answer.err
    assert recording.read_bytes() == b"a\rb\n"


def only_error(answer: Answer) -> str:
    (line,) = answer.errors
    assert "Traceback" not in line
    return line


@pytest.mark.parametrize("recording", [SCRIPT, CAST1, CAST2, CAST3, json.dumps(json.loads(CAST1))])
def test_every_kind_is_found_from_its_content(recording: str, session: CommandLine) -> None:
    answer = clean(session, recording)
    assert (answer.code, answer.out, answer.err) == (0, SEEN, "")
    answer = clean(session, recording, "-o", "seen.txt")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert (session.folder / "seen.txt").read_text() == SEEN


def test_standard_input_is_read(session: CommandLine) -> None:
    with session.start("session", "clean", "-", stdin=subprocess.PIPE) as process:
        assert process.communicate(SCRIPT, timeout=300) == (SEEN, "")
    assert process.returncode == 0


def test_a_reader_that_leaves_is_no_error(session: CommandLine) -> None:
    (session.folder / "long").write_text(HEADER + "a line\r\n" * 500_000 + END)
    with session.start("session", "clean", "long") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "a line\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_a_disk_that_is_full_is_told(session: CommandLine) -> None:
    (session.folder / "recording").write_text(HEADER + "a line\r\n" * 50_000 + END)
    with (
        Path("/dev/full").open("wb") as full,
        session.start("session", "clean", "recording", stdout=full) as process,
    ):
        assert "No space left on device" in process.communicate(timeout=300)[1]
    assert process.returncode == 1


def test_the_size_is_the_recordings_or_that_named(session: CommandLine) -> None:
    # A terminal of 30 columns moves this under the first row's end, one of 80 does not.
    reported = SCRIPT.replace("two\r\n", "two\x1b[1;80Hx\r\n")
    assert len(clean(session, reported).out.splitlines()[0]) == 30
    assert len(clean(session, reported, "--size", "50x10").out.splitlines()[0]) == 50
    answer = clean(session, reported.replace("COLUMNS", "X"))
    assert len(answer.out.splitlines()[0]) == 80
    assert answer.code == 0
    assert "80x24 is taken" in only_error(answer)


@pytest.mark.parametrize("size", ["80", "0x24", "80x1001", "axb", "80x24x2", ""])
def test_sizes_that_are_none_are_refused(size: str, session: CommandLine) -> None:
    answer = clean(session, SCRIPT, "--size", size)
    assert (answer.code, answer.out) == (2, "")
    assert "--size" in only_error(answer)


def test_sessions_in_one_file_follow_each_other(session: CommandLine) -> None:
    for code in ("printf 'one\\033[?1049htwo'", "printf three"):
        subprocess.run(
            ["script", "-q", "-a", "-O", "typescript", "-c", code],
            cwd=session.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=300,
            check=True,
        )
    answer = session("session", "clean", "typescript", "--size", "80x24", "--marks", "none")
    assert (answer.code, answer.out, answer.err) == (0, "   two\none\nthree\n", "")


def test_a_typescript_that_was_shown_in_a_session_is_not_its_end(session: CommandLine) -> None:
    shown = SCRIPT.replace("\r\n", "\n").replace("\n", "\r\n")
    answer = clean(session, SCRIPT.replace(TEXT, shown))
    assert answer.code == 0
    assert answer.out.count("Script done") == 1
    assert answer.out.count("Script started") == 1


def test_what_was_typed_is_left_out_of_a_log_of_both(session: CommandLine) -> None:
    subprocess.run(
        ["script", "-q", "-B", "both", "-T", "times", "-c", "stty -echo; read word; echo got $word"],
        cwd=session.folder,
        input=b"secret-word\n",
        stdout=subprocess.DEVNULL,
        timeout=300,
        check=True,
    )
    assert b"secret-word" in (session.folder / "both").read_bytes()
    answer = session("session", "clean", "both", "--timing", "times", "--size", "80x24")
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == "got secret-word"
    both = (session.folder / "both").read_bytes()
    typed = both.partition(b"\n")[2].index(b"secret-word")
    assert typed >= 0
    assert len(answer.out.splitlines()) <= 2


@pytest.mark.parametrize("logging", ["classic", "advanced"])
def test_timing_that_does_not_fit_is_told(logging: str, session: CommandLine) -> None:
    subprocess.run(
        ["script", "-q", "-O", "typescript", "-T", "times", "-m", logging, "-c", "seq 3; sleep 0.2; seq 4 6"],
        cwd=session.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=300,
        check=True,
    )
    seen = "".join(f"{n}\n" for n in range(1, 7))
    words = ("session", "clean", "typescript", "--timing", "times", "--size", "80x24")
    whole = session(*words)
    assert (whole.code, whole.out, whole.err) == (0, seen, "")
    times = session.folder / "times"
    lines = times.read_text().splitlines(keepends=True)
    output = [line for line in lines if line[0] in "O0123456789"]
    for damaged, reported in (
        (lines[: lines.index(output[-1])], "has more than the timing"),
        ([*lines, output[0]], "bytes more than typescript has"),
        ([*lines[:1], "noise\n", *lines[1:]], "line 2 is not one of a timing file"),
    ):
        times.write_text("".join(damaged))
        answer = session(*words)
        assert (answer.code, answer.out) == (1, seen)
        assert reported in only_error(answer)


def test_options_out_of_place_are_told(session: CommandLine) -> None:
    (session.folder / "times").write_text("0.1 5\n0.2 7\n")
    assert "timing file" in only_error(clean(session, "0.1 5\n0.2 7\n"))
    assert "leave out --timing" in only_error(clean(session, CAST2, "--timing", "times"))
    assert "not a timing file" in only_error(clean(session, SCRIPT, "--timing", "recording"))
    assert "cannot be read" in only_error(clean(session, SCRIPT, "--timing", "nowhere"))
    assert "cannot be read" in only_error(session("session", "clean", "nowhere"))
    assert "cannot be read" in only_error(session("session", "clean", "."))
    assert "is a folder" in only_error(clean(session, SCRIPT, "-o", "."))


def test_what_is_no_recording_is_told(session: CommandLine) -> None:
    answer = clean(session, b"")
    assert (answer.code, answer.out) == (1, "")
    assert "is empty" in only_error(answer)
    answer = clean(session, os.urandom(300_000))
    assert (answer.code, answer.out) == (1, "")
    assert "binary data" in only_error(answer)
    answer = clean(session, '{"version": 9}\n')
    assert (answer.code, answer.out) == (1, "")
    assert "unknown version" in only_error(answer)


def test_a_plain_text_is_read_as_such(session: CommandLine) -> None:
    answer = clean(session, "one\n  two\n", "--size", "80x24")
    assert (answer.code, answer.out) == (0, "one\n  two\n")
    assert "plain stream" in only_error(answer)
    answer = clean(session, TEXT, "--size", "80x24")
    assert (answer.code, answer.out) == (0, SEEN)


def test_broken_events_are_passed_over_and_told(session: CommandLine) -> None:
    header, *lines = CAST2.splitlines()
    noise = ['[0.5, "o"', "noise", "[1, 2, 3]", '{"a": 1}', '[0.1, "r", "bad"]']
    answer = clean(session, "\n".join((header, *noise, *lines)))
    assert (answer.code, answer.out) == (1, SEEN)
    assert "line 2 (and 4 more) is no event" in only_error(answer)


def test_windows_of_any_size_are_survived(session: CommandLine) -> None:
    header, *lines = CAST2.splitlines()
    sizes = ("1x1", "500x500", "2x1", "3x500", "30x5")
    resized = [json.dumps([0.8, "r", size]) for size in sizes]
    assert clean(session, "\n".join((header, *lines, *resized))).out == SEEN
    answer = clean(session, "\n".join((header, *lines, json.dumps([1, "r", "99999x2"]))))
    assert (answer.code, answer.out) == (1, SEEN)
    assert "99999x2" in only_error(answer)
    answer = clean(session, CAST2.replace("30", "0"))
    assert answer.out == SEEN
    assert "80x24 is taken" in only_error(answer)


@pytest.mark.parametrize("recording", [SCRIPT, CAST1, CAST2, CAST3])
def test_a_recording_that_is_cut_gives_what_there_is(recording: str, session: CommandLine) -> None:
    for cut in (3, 20, len(recording) // 3, len(recording) // 2, len(recording) - 40):
        answer = clean(session, recording[:cut])
        assert answer.code in (0, 1)
        assert answer.code == 1 or not answer.err or "plain stream" in answer.err or "is taken" in answer.err
        assert len(answer.errors) <= 2
        assert all("bug" not in line and "Traceback" not in line for line in answer.errors)
    whole = clean(session, recording[: recording.rindex("wo") + 2])
    assert whole.out.startswith("$ ls\n")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recording=st.sampled_from([SCRIPT, CAST1, CAST2, CAST3]), data=st.data())
def test_no_damage_makes_reading_fail_in_another_way(recording: str, data: st.DataObject) -> None:
    content = bytearray(recording.encode())
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    content = content[: data.draw(st.integers(0, len(content)))]
    findings = Findings()
    # Any other error is a bug.
    with contextlib.suppress(OscopeError):
        for event in kind.events(Source("it", BytesIO(content)), None, findings):
            assert isinstance(event, (Start, Resize, bytes))
    assert all("\n" not in reported for reported in (*findings.notes, *findings.problems))


@settings(max_examples=200)
@given(
    pieces=st.lists(st.integers(1, 40), min_size=1), text=st.text(st.sampled_from("ab\r\nScript done on "))
)
def test_a_session_ends_at_its_last_line_however_it_arrives(pieces: list[int], text: str) -> None:
    class Slow:
        """A pipe that gives a few bytes at a time."""

        def __init__(self) -> None:
            self._rest = f"{HEADER}{text}{END}".encode()
            self._turn = 0

        def read(self, count: int) -> bytes:
            self._turn += 1
            size = min(count, pieces[self._turn % len(pieces)])
            piece, self._rest = self._rest[:size], self._rest[size:]
            return piece

    findings = Findings()
    start, *content = kind.events(Source("it", Slow()), None, findings)  # type: ignore[arg-type]
    assert start == Start(Size(30, 5))
    assert b"".join(part for part in content if isinstance(part, bytes)) == text.encode()
    assert findings == Findings()
