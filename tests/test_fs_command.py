"""`oscope-fs` and `oscope fs` as a person meets them: mounts of a real server, made and taken away."""

from __future__ import annotations

import json
import operator
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from cli_driver import ROOT, Answer, CommandLine
from fs_desk import LIMIT_S, Desk, only_line
from fs_mount import is_mounted, missing
from ssh_server import ALIAS
from waiting import wait_until

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def test_a_mount_is_made_told_of_and_taken_away(desk: Desk) -> None:
    assert desk.mounted() == Answer(0, "", "")
    assert (desk.point / "file").read_bytes() == b"there before"
    (desk.point / "new").write_bytes(b"made here")
    assert (desk.there / "new").read_bytes() == b"made here"
    found = desk.status()
    assert found["mountpoint"] == str(desk.point)
    assert found["target"] == desk.target
    assert found["state"] == "mounted"
    # The kernel tells of the last close a moment after it has returned.
    wait_until(lambda: desk.status()["dirty"] == [], "nothing is dirty any more")
    assert found["remote"] == "up"
    text = desk("status").out
    assert text.splitlines()[0] == f"{desk.target} at {desk.point}"
    assert f"process {found['pid']}" in text
    assert desk("status", desk.point).out == text
    assert json.loads(desk("status", "--json").out)[0]["pid"] == found["pid"]
    cache = Path(str(found["cache"]))
    assert cache.is_relative_to(desk.home / "caches/oscope/fs")
    assert cache.stat().st_mode & 0o777 == 0o700
    log = (cache / "log").read_text()
    assert "is mounted at" in log
    assert desk.unmounted() == Answer(0, "", "")
    assert desk("status", "--json").out == "[]\n"
    assert list((desk.home / "caches/oscope/fs/mounts").iterdir()) == []
    # What was cached is there for the next time, which may come at once.
    desk.mounted()
    assert (desk.point / "new").read_bytes() == b"made here"
    desk.unmounted()


def test_the_process_leaves_the_folder_and_the_terminal_of_who_called(desk: Desk) -> None:
    desk.mounted()
    process = Path(f"/proc/{desk.pid()}")
    assert (process / "cwd").readlink() == Path("/")
    assert os.getsid(desk.pid()) == desk.pid()
    assert (process / "fd/0").readlink() == (process / "fd/1").readlink() == Path("/dev/null")
    desk.unmounted()


def test_files_for_ssh_may_be_named_relative_to_the_folder(desk: Desk) -> None:
    folder = desk.server.folder
    config = (desk.home / "config").write_text(
        re.sub(r".*(IdentityFile|UserKnownHostsFile).*\n", "", desk.server.config.read_text())
    )
    assert config
    options = ["-o", "IdentityFile=user", "-o", "UserKnownHostsFile known"]
    place = os.path.relpath(desk.home / "config", folder)
    answer = desk(
        "mount", "-F", place, *options, desk.target, os.path.relpath(desk.point, folder), cwd=folder
    )
    assert answer == Answer(0, "", "")
    # A connection that is made anew, from another folder, finds them too.
    desk.server.cut()
    assert (desk.point / "file").read_bytes() == b"there before"
    desk.unmounted()


def test_a_mount_point_may_have_any_name(desk: Desk) -> None:
    point = os.fsencode(desk.home) + b"/a b\\\n\xff"
    os.mkdir(point)  # noqa: PTH102 (bytes)
    try:
        assert desk("mount", "-F", desk.server.config, desk.target, point).code == 0
        (found,) = json.loads(desk("status", "--json").out)
        assert bytes.fromhex(found["mountpoint_hex"]) == point
        assert os.listdir(point) == [b"file"]  # noqa: PTH208 (bytes)
        assert desk("status", point).code == 0
    finally:
        assert desk("umount", point).code == 0
    assert desk.processes() == []


def test_several_mounts_are_told_of_and_their_caches_are_their_own(desk: Desk) -> None:
    desk.mounted()
    other = desk.home / "other"
    other.mkdir()
    (desk.home / "there2").mkdir()
    second = f"{ALIAS}:{desk.home / 'there2'}"
    assert desk("mount", "-F", desk.server.config, second, other).code == 0
    found = json.loads(desk("status", "--json").out)
    assert {each["target"] for each in found} == {desk.target, second}
    assert len({each["cache"] for each in found}) == 2
    assert desk("umount", other).code == 0
    assert [each["target"] for each in json.loads(desk("status", "--json").out)] == [desk.target]
    desk.unmounted()


def test_what_is_unmounted_by_others_ends_in_order_too(desk: Desk) -> None:
    desk.mounted()
    words = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
    subprocess.run([*words, desk.point], check=True, timeout=LIMIT_S)
    wait_until(desk.nothing_runs, "the process ends")
    assert desk("status", "--json").out == "[]\n"


def test_nothing_can_be_changed_through_a_read_only_mount(desk: Desk) -> None:
    desk.mounted("--read-only")
    with pytest.raises(OSError, match="Read-only file system"):
        (desk.point / "new").write_bytes(b"")
    assert (desk.point / "file").read_bytes() == b"there before"
    desk.unmounted()


def test_in_the_foreground_it_logs_and_ends_by_a_signal(desk: Desk) -> None:
    with desk.start("mount", "-f", "-F", desk.server.config, desk.target, desk.point) as process:
        wait_until(lambda: is_mounted(desk.point) and desk("status", desk.point).code == 0, "it is mounted")
        assert desk.pid() == process.pid
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (0, "")
    lines = err.splitlines()
    assert lines[0] == f"oscope-fs: {desk.target} is mounted at {desk.point}"
    assert "unmounted by a signal" in err
    assert all(line.startswith("oscope-fs: ") for line in lines)
    desk.is_quiet()


def test_a_signal_detaches_a_mount_that_is_used_and_loses_nothing(desk: Desk) -> None:
    desk.mounted()
    pid = desk.pid()
    with (desk.point / "file").open("r+b") as file:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not is_mounted(desk.point), "it is unmounted")
        file.write(b"later")
    wait_until(desk.nothing_runs, "the process ends")
    assert (desk.there / "file").read_bytes() == b"later before"
    desk.is_quiet()


def write_and_kill(desk: Desk) -> None:
    """Change the file, and kill the mount's process before it is closed; its mount is left, dead."""
    # Before it is open: each program that is started closes what it inherits, and closing copies back.
    pid = desk.pid()
    file = (desk.point / "file").open("r+b", buffering=0)
    file.write(b"kept")
    os.kill(pid, signal.SIGKILL)
    wait_until(desk.nothing_runs, "the process is gone")
    assert is_mounted(desk.point)
    # Attributes are still answered by the kernel's cache. Which error it is depends on whether the kernel has
    # taken note of the end by then.
    for use in (lambda: os.statvfs(desk.point), file.close):
        with pytest.raises(OSError, match=r"not connected|Software caused connection abort"):
            use()
    assert (desk.there / "file").read_bytes() == b"there before"


def test_the_next_mount_clears_a_dead_one_and_says_so(desk: Desk) -> None:
    desk.mounted()
    write_and_kill(desk)
    assert "its process was killed" in only_line(desk("status", desk.point), 1)
    (found,) = json.loads(desk("status", "--json").out)
    assert found["state"] == "killed"
    assert "killed" in desk("status").out
    answer = desk.mounted()
    cleared, *copied = answer.err.splitlines()
    assert cleared == f"oscope-fs: {desk.point}: the mount of a process that was killed is cleared"
    assert "1 copied back" in copied[-1]
    assert (desk.there / "file").read_bytes() == b"kepte before"
    assert (desk.point / "file").read_bytes() == b"kepte before"
    desk.unmounted()


def test_umount_clears_a_dead_mount_and_recover_copies_back(desk: Desk) -> None:
    desk.mounted()
    cache = str(desk.status()["cache"])
    write_and_kill(desk)
    line = only_line(desk("umount", desk.point), 1)
    assert f"is cleared; not copied back: file; kept in {cache}; oscope-fs recover --cache {cache}" in line
    desk.is_quiet()
    assert "its process was killed" in only_line(desk("umount", desk.point), 1)
    answer = desk("recover")
    assert answer.code == 0, answer
    assert "1 copied back, 0 kept beside the server's version, 0 left" in answer.err.splitlines()[-1]
    assert (desk.there / "file").read_bytes() == b"kepte before"
    assert "file: copied back" in (Path(cache) / "log").read_text()
    # A second time there is nothing to do, by any of the ways to say it.
    for words in ([], ["--cache", cache], ["-F", desk.server.config, desk.target]):
        assert "0 copied back" in only_line(desk("recover", *words), 0)
    assert "is not mounted" in only_line(desk("status", desk.point), 1)


@pytest.mark.parametrize("recovered", [False, True])
def test_umount_of_a_dead_mount_succeeds_if_nothing_is_left(desk: Desk, *, recovered: bool) -> None:
    desk.mounted()
    if recovered:
        write_and_kill(desk)
        # With passthrough the kernel lets go of the copy only when the dead mount is taken away: exit code 1.
        assert desk("recover").code in (0, 1)
        assert (desk.there / "file").read_bytes() == b"kepte before"
    else:
        assert (desk.point / "file").read_bytes() == b"there before"
        os.kill(desk.pid(), signal.SIGKILL)
        wait_until(desk.nothing_runs, "the process is gone")
    assert only_line(desk("umount", desk.point), 0).endswith("is cleared")
    desk.is_quiet()
    assert desk("status", "--json").out == "[]\n"


def test_umount_of_a_dead_mount_whose_cache_is_not_known_does_not_succeed(desk: Desk) -> None:
    desk.mounted()
    write_and_kill(desk)
    cache = desk.home / "caches"
    cache.rename(desk.home / "elsewhere")
    line = only_line(desk("umount", desk.point), 1)
    assert "is not known" in line
    assert "XDG_CACHE_HOME" in line


def test_what_cannot_be_copied_back_is_named_and_recovered_later(desk: Desk) -> None:
    desk.mounted("--timeout", "5s")
    cache = str(desk.status()["cache"])
    file = (desk.point / "file").open("r+b", buffering=0)
    file.write(b"kept")
    desk.server.stop()
    try:
        with pytest.raises(OSError, match="Input/output error"):
            file.close()
        answer = desk("umount", desk.point)
        line = answer.err.splitlines()[-1]
        assert answer.code == 1, answer
        assert "not copied back" in line
        assert "file" in line
        assert f"kept in {cache}, from where the next mount copies it back" in line
        assert line.endswith(f"oscope-fs recover --cache {cache}")
        wait_until(desk.nothing_runs, "the process ends")
        desk.is_quiet()
        assert "refused" in only_line(desk("recover", "--cache", cache), 1)
    finally:
        desk.server.start()
    assert desk("recover", "--cache", cache).code == 0
    assert (desk.there / "file").read_bytes() == b"kepte before"


def test_recover_needs_a_cache_that_is_there(desk: Desk) -> None:
    assert "nothing to recover" in only_line(desk("recover"), 0)
    assert "there is no cache folder" in only_line(desk("recover", "host:dir"), 1)
    assert "is no cache folder" in only_line(desk("recover", "--cache", desk.home), 1)


@pytest.fixture
def oscope(desk: Desk) -> CommandLine:
    return CommandLine(desk.home, {name: desk.environment[name] for name in ("XDG_CACHE_HOME", "OSCOPE_FS")})


def test_oscope_fs_is_the_program_itself(desk: Desk, oscope: CommandLine) -> None:
    for words in ([], ["--help"], ["-h"]):
        answer = oscope("fs", *words)
        assert answer.code == 0
        assert re.findall(r"^  (\w+) ", answer.out, re.MULTILINE) == [
            "mount", "umount", "status", "refresh", "recover", "operations", "serve",
        ]  # fmt: skip
    assert oscope("fs", "mount", "--help").out == desk("mount", "--help").out
    assert oscope("fs", "status", str(desk.point)) == desk("status", desk.point)
    assert oscope("fs", "mount", "host") == desk("mount", "host")
    words = ["-F", str(desk.server.config), desk.target, str(desk.point)]
    assert oscope("fs", "mount", *words) == Answer(0, "", "")
    assert (desk.point / "file").read_bytes() == b"there before"
    assert oscope("fs", "umount", str(desk.point)) == Answer(0, "", "")
    desk.is_quiet()


def test_the_options_of_every_command_may_stand_anywhere(oscope: CommandLine) -> None:
    for words in (["--store", "s", "fs", "status", "--json"], ["fs", "status", "--verbose", "--json"]):
        assert oscope(*words) == Answer(0, "[]\n", "")
    assert (
        oscope("fs", "status", "--store").err == "oscope: --store: expected one argument: see oscope --help\n"
    )


@pytest.mark.parametrize("name", ["none", "."])
def test_without_the_program_the_remedy_is_told(name: str, oscope: CommandLine) -> None:
    answer = oscope("fs", "status", OSCOPE_FS=str(oscope.folder / name))
    assert (answer.code, answer.out) == (1, "")
    (line,) = answer.err.splitlines()
    assert line.startswith("oscope: OSCOPE_FS=")
    assert line.endswith("is not a program: unset it, or name the built oscope-fs")
    assert "Traceback" in oscope("fs", "status", "--verbose", OSCOPE_FS=str(oscope.folder / name)).err


def test_a_reader_that_left_is_no_crash(desk: Desk) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [desk.program, "--help"], stdout=pipe, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


def table_of(program: Path) -> str:
    """Return the table of operations as docs/reference/fs.md has it."""
    reported = subprocess.run(
        [program, "operations", "--json"], capture_output=True, check=True, timeout=LIMIT_S
    ).stdout
    rows = [
        f"| `{each['name']}` | {'yes' if each['implemented'] else 'no'} | {each['what']} |"
        for each in json.loads(reported)
    ]
    return "\n".join(
        ["| operation | implemented | what it does, or what happens instead |", "|---|---|---|", *rows]
    )


def test_the_table_of_operations_in_the_documentation_is_the_programs_own(filesystem: Path) -> None:
    table = table_of(filesystem)
    assert table.count("| yes |") > 25
    reported = (ROOT / "docs/reference/fs.md").read_text().partition("<!-- operations: begin -->\n")[2]
    assert reported.partition("\n<!-- operations: end -->")[0] == table


def test_the_table_of_operations_is_printed_for_people_too(desk: Desk) -> None:
    lines = desk("operations").out.splitlines()
    for line, each in zip(lines, json.loads(desk("operations", "--json").out), strict=True):
        assert line.split(maxsplit=2) == [each["name"], "yes" if each["implemented"] else "no", each["what"]]


def test_passthrough_is_had_where_the_doctor_says_so(desk: Desk) -> None:
    from oscope.tools.doctor import filesystem

    (found,) = (
        each for each in map(operator.call, filesystem.FILESYSTEM_CHECKS) if each.name == "FUSE passthrough"
    )
    desk.mounted()
    assert (desk.point / "file").read_bytes() == b"there before"
    assert desk.status()["passthrough"] == (found.status == "ok")
    desk.unmounted()
    desk.mounted("--no-passthrough")
    assert (desk.point / "file").read_bytes() == b"there before"
    assert desk.status()["passthrough"] is False
    assert desk.status()["why_not"]
    desk.unmounted()
