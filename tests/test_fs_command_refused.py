"""What `oscope-fs` cannot do is told in one line with its remedy; nothing is left mounted or running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from cli_driver import NOBODY
from fs_desk import LIMIT_S, Desk, only_line
from fs_mount import is_mounted, missing
from ssh_server import ALIAS, free_port
from waiting import wait_until

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def settings(desk: Desk, **changed: str) -> Path:
    """Return settings for ssh in which options have other values."""
    text = desk.server.config.read_text()
    for name, value in changed.items():
        text = re.sub(rf"(?m)^  {name} .*", f"  {name} {value}", text)
    path = desk.home / "ssh_config"
    path.write_text(text)
    return path


def unknown_key(desk: Desk) -> list[object]:
    (desk.home / "known").touch()
    return ["-F", settings(desk, UserKnownHostsFile=str(desk.home / "known"))]


def changed_key(desk: Desk) -> list[object]:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", desk.home / "host"], check=True, timeout=LIMIT_S
    )
    key = (desk.home / "host.pub").read_text()
    (desk.home / "known").write_text(f"[127.0.0.1]:{desk.server.port} {key}")
    return ["-F", settings(desk, UserKnownHostsFile=str(desk.home / "known"))]


def refused_key(desk: Desk) -> list[object]:
    key = desk.home / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=LIMIT_S)
    return ["-F", settings(desk, IdentityFile=str(key))]


def unreadable(desk: Desk) -> list[object]:
    desk.there.chmod(0)
    if os.geteuid() != 0:
        return []
    # Root may read everything: another user logs in.
    import pwd

    return ["-F", settings(desk, User=pwd.getpwuid(NOBODY).pw_name)]


def missing_folder(desk: Desk) -> list[object]:
    (desk.there / "file").unlink()
    desk.there.rmdir()
    return []


def a_file(desk: Desk) -> list[object]:
    missing_folder(desk)
    desk.there.touch()
    return []


UNREACHABLE = {
    "unknown host key": (unknown_key, "Host key verification failed"),
    "changed host key": (changed_key, "Host key verification failed"),
    "key refused": (refused_key, "Permission denied"),
    "connection refused": (lambda _: ["-p", free_port()], "Connection refused"),
    "host unknown": (lambda _: ["-o", "HostName=no-such-host.invalid"], "no-such-host.invalid"),
    "no settings": (lambda desk: ["-F", desk.home / "none"], "none"),
    "folder missing": (missing_folder, "there"),
    "not a folder": (a_file, "there"),
    "folder not readable": (unreadable, "ermission denied"),
}


@pytest.mark.parametrize("case", UNREACHABLE)
def test_a_server_that_cannot_be_used_is_told_in_one_line(case: str, desk: Desk) -> None:
    prepare, reported = UNREACHABLE[case]
    line = only_line(desk.mount(*prepare(desk)), 1)
    assert reported in line
    assert "; " in line, "a remedy follows"
    desk.is_quiet()
    assert not (desk.home / "caches").exists(), "a slip of the pen leaves no cache"
    assert desk("status", "--json").out == "[]\n"


def test_a_server_that_does_not_answer_is_waited_for_no_longer_than_asked(desk: Desk) -> None:
    with desk.server.frozen():
        only_line(desk.mount("--timeout", "1s"), 1)
    desk.is_quiet()


def test_a_caller_who_gives_up_leaves_nothing(desk: Desk) -> None:
    with desk.server.frozen():
        with desk.start("mount", "-F", desk.server.config, desk.target, desk.point) as process:
            wait_until(lambda: len(desk.processes()) == 2, "the mount's own process runs")
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT_S) != 0
        wait_until(desk.nothing_runs, "that process ends too")
    desk.is_quiet()


def inside(desk: Desk) -> list[object]:
    return ["--cache", desk.point / "cache"]


def around(desk: Desk) -> list[object]:
    return ["--cache", desk.home]


def no_folder(desk: Desk) -> list[object]:
    (desk.home / "taken").touch()
    return ["--cache", desk.home / "taken"]


def absent(desk: Desk) -> list[object]:
    desk.point.rmdir()
    return []


def occupied(desk: Desk) -> list[object]:
    (desk.point / "file").touch()
    return []


def no_folder_either(desk: Desk) -> list[object]:
    desk.point.rmdir()
    desk.point.touch()
    return []


UNFIT = {
    "mount point missing": (absent, 1, "is missing; mkdir"),
    "mount point not empty": (occupied, 1, "is not empty"),
    "mount point a file": (no_folder_either, 1, "is not a folder"),
    "cache a file": (no_folder, 1, "taken"),
    "cache in the mount point": (inside, 2, "lie in one another"),
    "mount point in the cache": (around, 2, "lie in one another"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_place_that_will_not_do_is_told_in_one_line(case: str, desk: Desk) -> None:
    prepare, code, reported = UNFIT[case]
    words = prepare(desk)
    before = sorted(desk.home.iterdir())
    assert reported in only_line(desk.mount(*words), code)
    desk.is_quiet()
    assert sorted(desk.home.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("", "no verb is given; see oscope-fs --help"),
        ("moun host:dir point", "unrecognized subcommand 'moun'"),
        ("mount", "required arguments were not provided"),
        ("mount host:dir", "<MOUNTPOINT>"),
        ("mount host point", "host: not HOST:DIR"),
        ("mount -oX point", "<MOUNTPOINT>"),
        ("mount -- -oProxyCommand=x:dir point", "a host cannot start with '-'"),
        ("mount :dir point", "no usable host name"),
        ("mount host:dir point -p 0", "'--port <PORT>'"),
        ("mount host:dir point -p 65536", "'--port <PORT>'"),
        ("mount host:dir point --cache-size 10X", "10X"),
        ("mount host:dir point --cache-size 0.3", "0.3"),
        ("mount host:dir point --attribute-time -1s", "see oscope-fs mount --help"),
        ("mount host:dir point --timeout 0", "leaves no time"),
        ("mount host:dir point --nope", "'--nope'"),
        ("umount", "<MOUNTPOINT>"),
        ("umount point --timeout x", "is not a duration"),
        ("status a b", "unexpected argument 'b'"),
        ("recover host", "host: not HOST:DIR"),
        ("recover -p 22", "name the target too"),
        ("operations all", "unexpected argument 'all'"),
    ],
)
def test_a_wrong_request_gets_one_line_and_exit_code_2(words: str, reported: str, desk: Desk) -> None:
    before = sorted(desk.home.iterdir())
    assert reported in only_line(desk(*words.split()), 2)
    assert sorted(desk.home.iterdir()) == before


def test_a_mount_point_that_is_taken_is_busy(desk: Desk) -> None:
    desk.mounted()
    assert f"{desk.point} is busy: " in only_line(desk.mount("--cache", desk.home / "own"), 1)
    assert "/proc is busy: proc" in only_line(
        desk("mount", "-F", desk.server.config, desk.target, "/proc"), 1
    )
    assert (desk.point / "file").read_bytes() == b"there before"
    desk.unmounted()


def test_a_cache_is_of_one_mount_at_a_time_and_of_one_target(desk: Desk) -> None:
    desk.mounted()
    pid = desk.pid()
    cache = str(desk.status()["cache"])
    second = desk.home / "second"
    second.mkdir()
    line = only_line(desk("mount", "-F", desk.server.config, desk.target, second), 1)
    assert cache in line
    assert str(pid) in line
    assert str(pid) in only_line(desk("recover", "--cache", cache), 1)
    assert f"process {pid}" in only_line(desk("recover"), 0), "the living mount copies back itself"
    assert not is_mounted(second)
    assert (desk.point / "file").read_bytes() == b"there before"
    desk.unmounted()
    other = f"{ALIAS}:{desk.home}"
    line = only_line(desk("mount", "-F", desk.server.config, other, second, "--cache", cache), 1)
    assert cache in line
    assert not is_mounted(second)
    assert desk.processes() == []


def test_what_is_not_mounted_cannot_be_unmounted_or_told_of(desk: Desk) -> None:
    for verb in ("umount", "status"):
        assert f"{desk.point} is not mounted" in only_line(desk(verb, desk.point), 1)
        assert "none is not mounted" in only_line(desk(verb, desk.home / "none"), 1)
        assert "/proc is a mount of proc" in only_line(desk(verb, "/proc"), 1)
    assert only_line(desk("status"), 0) == "oscope-fs: nothing is mounted"
    assert Path("/proc/self/status").exists()


def test_a_mount_that_is_used_stays_and_who_uses_it_is_told(desk: Desk) -> None:
    desk.mounted()
    with (desk.point / "file").open("rb"):
        line = only_line(desk("umount", desk.point), 1)
        assert "is busy and stays mounted" in line
        assert f"{os.getpid()} (" in line
        assert (desk.point / "file").read_bytes() == b"there before"
    desk.unmounted()
