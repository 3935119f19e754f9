"""Traces as strace writes them with other options, damaged ones, and files that are none."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import traced_program
from cli_driver import CommandLine
from explained import BEST, explained, names, strace
from oscope.cli.views.explain import plain
from oscope.model.errors import UsageError
from oscope.tools.explain import line, reading
from oscope.tools.explain.line import parse, split_arguments

CALLS = 40
CUTS = 60
FORMATS = (
    (), ("-f",), ("-f", "-y"), ("-f", "-t"), ("-f", "-tt"), ("-f", "-ttt"), ("-f", "-r"), ("-f", "-T"),
    ("-f", "-i"), ("-f", "-n"), ("-f", "-tt", "-T", "-yy"), ("-f", "-r", "-T"), ("-f", "-v", "-s", "4096"),
    ("-f", "-x"), ("-f", "-a", "0"), ("-f", "--decode-pids=comm"),
)  # fmt: skip
ARM64 = """\
70 execve("/usr/bin/true", ["true"], 0xffffd1c8 /* 10 vars */) = 0
70 brk(NULL) = 0xaaaae1a2b000
70 faccessat(AT_FDCWD, "/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory)
70 openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3
70 newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=21000, ...}, AT_EMPTY_PATH) = 0
70 mmap(NULL, 21000, PROT_READ, MAP_PRIVATE, 3, 0) = 0xffff8a3c0000
70 close(3) = 0
70 openat(AT_FDCWD, "/lib/aarch64-linux-gnu/libc.so.6", O_RDONLY|O_CLOEXEC) = 3
70 mmap(NULL, 1826912, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_DENYWRITE, 3, 0) = 0xffff8a1d0000
70 close(3) = 0
70 set_tid_address(0xffff8a3c90f0) = 70
70 set_robust_list(0xffff8a3c9100, 24) = 0
70 rseq(0xffff8a3c97c0, 0x20, 0, 0xd428bc00) = 0
70 mprotect(0xffff8a36f000, 16384, PROT_READ) = 0
70 munmap(0xffff8a3c0000, 21000) = 0
70 exit_group(0) = ?
70 +++ exited with 0 +++
"""
"""As strace writes a program's start on arm64 (glibc 2.36), without -y."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_program.build(tmp_path_factory.mktemp("program"))


@pytest.fixture
def oscope(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.mark.parametrize("options", FORMATS, ids=lambda options: " ".join(options) or "none")
@pytest.mark.parametrize("way", ["alone", "thread", "fork"])
def test_every_format_tells_the_same(
    options: tuple[str, ...], way: str, program: Path, tmp_path: Path
) -> None:
    found = explained(strace(tmp_path, [str(program), str(CALLS), way], options))
    assert found.trace.not_understood == 0, found.trace.example
    tasks = traced_program.TASKS[way] if "-f" in options else 1
    assert len(found.tree.tasks) == tasks
    counts = Counter(names(found))
    assert counts["getppid"] == CALLS * tasks
    assert len(found.tree.unfollowed) == traced_program.TASKS[way] - tasks
    phases = found.tree.tasks[0].images[0].phases
    assert list(dict.fromkeys(phases)) == [
        "exec", "loader", "libraries", "storage", "protection", "program", "exit",
    ]  # fmt: skip
    clock = {"-t": "day", "-tt": "day", "-ttt": "epoch", "-r": "relative"}
    assert found.trace.clock == next((clock[option] for option in options if option in clock), None)
    if found.trace.clock is not None:
        times = [call.at_ns for call in found.trace.calls]
        assert times == sorted(time for time in times if time is not None)


def test_standard_error_of_strace_is_read_too(program: Path) -> None:
    done = subprocess.run(
        ["strace", "-f", program, str(CALLS), "fork"], capture_output=True, timeout=300, check=False
    )
    found = explained(done.stderr)
    assert found.trace.not_understood == 0, found.trace.example
    assert Counter(names(found))["getppid"] == 2 * CALLS
    assert [task.kind for task in found.tree.tasks] == ["first", "process"]


def test_files_are_followed_where_strace_does_not_name_them(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 70_000)
    words = ["sh", "-c", f"exec 5<{source}; cat <&5 >{tmp_path}/target"]
    named = explained(strace(tmp_path, words))
    bare = explained(strace(tmp_path, words, ["-f"]))
    for found in (named, bare):
        read = sum(
            call.value or 0 for call in found.trace.calls if call.file == str(source) and call.name == "read"
        )
        moved = sum(call.value or 0 for call in found.trace.calls if call.target == f"{tmp_path}/target")
        written = sum(
            call.value or 0
            for call in found.trace.calls
            if call.file == f"{tmp_path}/target" and call.name == "write"
        )
        assert max(read, moved) == max(written, moved) == 70_000


def test_a_trace_of_arm64_has_all_phases() -> None:
    found = explained(ARM64)
    (image,) = found.tree.images
    assert list(dict.fromkeys(image.phases)) == [
        "exec",
        "loader",
        "libraries",
        "storage",
        "protection",
        "exit",
    ]
    (program,) = found.to_object()["tasks"][0]["programs"]
    reported = {each["name"]: each["text"] for each in program["findings"]}
    assert "TPIDR_EL0" in reported["thread-local-storage"]
    assert "before it opens libc.so.6 (call 8)" in reported["preload"]


@pytest.mark.parametrize("way", ["alone", "thread", "fork"])
def test_a_trace_cut_anywhere_is_explained_as_far_as_it_goes(way: str, program: Path, tmp_path: Path) -> None:
    whole = strace(tmp_path, [str(program), str(CALLS), way])
    expected = names(explained(whole))
    chance = random.Random(9)
    for _ in range(CUTS):
        place = chance.randrange(1, len(whole))
        piece = whole[:place]
        try:
            found = explained(piece)
        except UsageError:
            assert b"(" not in piece
            continue
        reported = names(found)
        assert reported[:-1] == expected[: len(reported) - 1]
        assert expected[len(reported) - 1].startswith(reported[-1])
        assert found.trace.truncated == (piece[-1:] != b"\n")
        json.dumps(found.to_object())
        # The beginning may be missing too: what is left is told.
        rest = explained(whole[place:] + b"\n1 getpid() = 1\n")
        assert rest.trace.not_understood <= 1
        assert len(names(rest)) >= len(expected) - len(reported)


def test_the_source_of_a_program_is_no_trace(oscope: CommandLine) -> None:
    (oscope.folder / "old.c").write_text('int main(void)\n{\n\tputs("x");\n\treturn 0;\n}\n')
    answer = oscope("explain", "--strace", "old.c")
    assert (answer.code, answer.out) == (2, "")
    assert "none of its 5 lines is a system call of strace" in answer.err


def test_damaged_traces_are_never_a_failure(program: Path, tmp_path: Path) -> None:
    whole = strace(tmp_path, [str(program), str(CALLS), "fork"])
    chance = random.Random(8)
    for _ in range(CUTS):
        damaged = bytearray(whole)
        for _ in range(200):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        found = explained(bytes(damaged))
        reported = json.dumps(found.to_object())
        assert "getppid" in reported


def test_calls_that_are_parted_are_put_together() -> None:
    found = explained(
        "7 1000000.000000 read(3,  <unfinished ...>\n"
        "8 1000000.000001 getpid() = 8 <0.000001>\n"
        '7 1000000.000500 <... read resumed>"a) = 5, b", 100) = 9 <0.000499>\n'
        "8 1000000.000600 futex(0x1, FUTEX_WAIT, 2, NULL <unfinished ...>) = ?\n"
        "8 1000000.000700 +++ killed by SIGKILL +++\n"
    )
    read, _, futex = found.trace.calls
    assert (read.words, read.value, read.took_ns, read.at_ns) == (["3", '"a) = 5, b"', "100"], 9, 499_000, 0)
    assert (futex.words[1], futex.result, futex.succeeded) == ("FUTEX_WAIT", "?", False)
    assert [task.ended for task in found.tree.tasks] == ["", "killed by SIGKILL"]


def test_a_thread_that_runs_another_program_becomes_the_process(tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text(
        "#include <pthread.h>\n#include <unistd.h>\n"
        'static void *other(void *unused) { execl("/bin/true", "true", (char *)0); return unused; }\n'
        "int main(void) { pthread_t t; pthread_create(&t, 0, other, 0); pause(); return 1; }\n"
    )
    subprocess.run(["cc", "-o", tmp_path / "other", source, "-lpthread"], timeout=300, check=True)
    found = explained(strace(tmp_path, [str(tmp_path / "other")]))
    first, thread = found.tree.tasks
    assert [image.path for image in first.images] == [str(tmp_path / "other"), "/bin/true"]
    assert thread.kind == "thread"
    assert first.ended == "exited with 0"


def test_a_thread_may_become_the_process_before_anything_else_is_written() -> None:
    """What strace writes where nothing comes between the thread's call and the change of its number."""
    found = explained(
        '7 1000000.000000 execve("/a", ["/a"], 0x7ff /* 9 vars */) = 0 <0.000418>\n'
        "7 1000000.000500 clone3({flags=CLONE_VM|CLONE_THREAD} => {parent_tid=[8]}, 88) = 8 <0.000124>\n"
        "8 1000000.000600 set_robust_list(0x7f8, 24) = 0 <0.000008>\n"
        '8 1000000.000700 execve("/bin/true", ["true"], 0x7ff /* 9 vars */ <pid changed to 7 ...>\n'
        "7 1000000.002600 +++ superseded by execve in pid 8 +++\n"
        "7 1000000.002900 <... execve resumed>) = 0 <0.002216>\n"
        "7 1000000.004500 +++ exited with 0 +++\n"
    )
    first, thread = found.tree.tasks
    assert [image.path for image in first.images] == ["/a", "/bin/true"]
    assert (thread.kind, first.ended) == ("thread", "exited with 0")
    assert found.trace.cut == 0


def test_lines_are_taken_apart_whatever_stands_in_them() -> None:
    line = parse(r'12 openat(AT_FDCWD</a, (b>, "x\") = 3, {[", O_RDONLY) = 3</a, (b/x) = 7> <0.000010>')
    assert line.kind == "call"
    assert split_arguments(line.arguments) == ["AT_FDCWD</a, (b>", r'"x\") = 3, {["', "O_RDONLY"]
    assert line.result == "3</a, (b/x) = 7>"
    assert split_arguments("1</dev/pts/0<char 136:0>>, TCGETS, {c_iflag=1<<3, x={1, 2}} => {3, 4}") == [
        "1</dev/pts/0<char 136:0>>", "TCGETS", "{c_iflag=1<<3, x={1, 2}} => {3, 4}",
    ]  # fmt: skip
    assert split_arguments("") == []
    assert parse("main(1) returned").kind in ("cut", "other")


def test_arguments_are_split_alike_in_both_ways() -> None:
    """Plain arguments are split by one pattern, others by following the brackets: who may not differ."""
    parts = (
        '"',
        "\\",
        "a",
        "/",
        "*",
        "<",
        ">",
        "-",
        "=",
        ",",
        " ",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "->",
        "<<",
        "\n",
    )
    whole = ('"x, y"', "</a/b, c>", "{a=1, b}", "[1, 2]", "/* 3 */", "...", "O_RDONLY|O_CLOEXEC")
    chance = random.Random(5)
    plain = 0
    for _ in range(20_000):
        text = "".join(chance.choices((*parts, *whole), k=chance.randint(0, 10)))
        assert split_arguments(text) == line._split_slowly(text), text
    for text in ('AT_FDCWD</x-y>, "/a, b", O_RDONLY', '3</a[1]>, "", {st_mode=S_IFREG|0644, ...}, 0', ", ,"):
        assert split_arguments(text) == line._split_slowly(text)
        plain += line._PLAIN_ARGUMENT.match(text) is not None
    assert plain == 3


def test_numbers_of_all_kinds_are_read() -> None:
    long = "9" * 6000
    found = explained(
        "umask(022) = 077\nbrk(NULL) = 0x5000\nread(3, 0x1, 9) = -1 EAGAIN (x)\nread(0, 1, 2) = ?\n"
        f"{long}.{long} read({long}, 0x{long}, {long}) = {long} <{long}.{long}>\nmmap({long}) = 0x{long}\n"
    )
    assert [call.value for call in found.trace.calls][:4] == [0o77, 0x5000, -1, None]
    json.dumps(found.to_object())


def test_midnight_is_crossed() -> None:
    found = explained("23:59:59.900000 getpid() = 1\n00:00:00.100000 getpid() = 1\n")
    assert [call.at_ns for call in found.trace.calls] == [0, 200_000_000]


def test_a_trace_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_CALLS", 10)
    found = explained("getpid() = 1\n" * 25)
    assert len(names(found)) == 10
    assert any("15 later calls are left out" in note for note in found.notes())


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"hello\nworld\n", "none of its 2 lines is a system call"),
        (bytes(2**24 + 1), "no system call of strace in its first 16 MiB"),
        (bytes(range(256)) * 4000, "is a system call of strace"),
        (b"\0" * 3_000_000, "is a system call of strace"),
    ],
)
def test_files_that_are_no_trace_are_one_line(content: bytes, reported: str, oscope: CommandLine) -> None:
    (oscope.folder / "file").write_bytes(content)
    answer = oscope("explain", "--strace", "file")
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert reported in line


def test_a_summary_of_strace_is_told_as_such(tmp_path: Path, oscope: CommandLine) -> None:
    strace(tmp_path, ["true"], ["-c"])
    answer = oscope("explain", "--strace", "trace.txt")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "summary of strace -c" in answer.err


def test_requests_that_cannot_be_are_one_line(oscope: CommandLine) -> None:
    (oscope.folder / "plain").write_text("no program")
    for words, reported in (
        ((), "name one thing to explain"),
        (("--strace", "nowhere"), "cannot be read"),
        (("--strace", "."), "is a folder"),
        (("--strace", "plain", "--", "true"), "name one thing"),
        (("--strace", "plain", "--beside"), "--beside"),
        (("--", "no-such-command"), "no such command"),
        (("--", ""), "oscope explain -- COMMAND"),
        (("--", "", "true"), "oscope explain -- COMMAND"),
        (("--", "./plain"), "may not be executed"),
        (("-o", "no/folder/report", "--", "true"), "does not exist"),
        (("--json", "no/folder/found", "--", "true"), "does not exist"),
    ):
        answer = oscope("explain", *words)
        assert answer.code in (1, 2), words
        assert answer.err.count("\n") == 1, answer
        assert reported in answer.err, answer


def test_a_file_that_cannot_start_is_one_line(oscope: CommandLine) -> None:
    broken = oscope.folder / "broken"
    broken.write_bytes(b"\x7fELF but no more")
    broken.chmod(0o755)
    answer = oscope("explain", "--", "./broken")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "does not start" in answer.err


def test_the_command_has_its_own_streams_and_status(oscope: CommandLine) -> None:
    answer = oscope("explain", "-o", "report", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (answer.code, answer.out, answer.err) == (7, "out\n", "err\n")
    report = (oscope.folder / "report").read_text()
    assert "ended with status 7" in report
    for part in ("loader and preload list", "findings", "by phase", "by call", "by file", "under strace"):
        assert part in report
    found = oscope("explain", "--json", "-", "--", "sh", "-c", "echo out; echo err >&2")
    assert json.loads(found.out)["status"] == 0
    assert found.err == "out\nerr\n"
    beside = oscope("explain", "--beside", "--", "echo", "twice")
    assert beside.out.splitlines().count("twice") == 2
    assert "in a run without" in " ".join(beside.out.split())


def test_all_shows_every_call_and_the_default_less(tmp_path: Path, oscope: CommandLine) -> None:
    strace(tmp_path, [sys.executable, "-c", "print(1)"], BEST)
    short, whole = (oscope("explain", "--strace", "trace.txt", *more).out for more in ((), ("--all",)))
    count = len(names(explained((tmp_path / "trace.txt").read_bytes())))
    assert sum(" = " in line and "(" in line for line in whole.splitlines()) >= count
    assert "--all shows each" in short
    assert len(short.splitlines()) < len(whole.splitlines()) / 2


def test_a_hostile_trace_cannot_move_the_cursor(oscope: CommandLine) -> None:
    (oscope.folder / "file").write_bytes(
        b'1 open("\x1b[2J\x07\xe2\x80\xae", 0) = 3</\x1b]0;x\x07>\n\x1b[31mnoise\n'
    )
    answer = oscope("explain", "--strace", "file", "--all")
    assert answer.code == 0
    assert not set(answer.out) & {"\x1b", "\x07", "\u202e"}
    assert plain("a\x1bb") == r"a\x1bb"
