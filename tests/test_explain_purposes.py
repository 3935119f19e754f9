"""Every system call has a purpose: compared with a table that others keep, and with the kernel's headers."""

from __future__ import annotations

import re
import subprocess

import pytest
from system_calls import syscalls

from oscope.tools.explain.purposes import COMMON_NUMBERS, UNKNOWN_GROUP, purpose, purposes, resolve

GROUPS = {
    "files", "memory", "processes", "signals", "time", "network", "IPC", "security", "system",
}  # fmt: skip
LONGEST = 100


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_every_call_of_the_package_has_a_purpose(architecture: str) -> None:
    names = set(syscalls().load_arch_table(architecture))
    assert len(names) > 300
    assert names - purposes().keys() == set()


def test_every_call_of_the_installed_headers_has_a_purpose() -> None:
    source = "#include <asm/unistd.h>\n"
    try:
        done = subprocess.run(
            ["cc", "-E", "-dM", "-"], input=source, capture_output=True, text=True, timeout=300, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no C compiler: apt-get install gcc")
    names = set(re.findall(r"^#define __NR_(\w+)", done.stdout, re.MULTILINE)) - {"syscalls"}
    assert len(names) > 300
    assert {name for name in names if purpose(name).group == UNKNOWN_GROUP} == set()


def test_lines_are_one_sentence_of_a_known_group() -> None:
    for name, found in purposes().items():
        assert found.group in GROUPS, name
        assert 5 < len(found.text) <= LONGEST, name
        assert found.text == found.text.strip().rstrip("."), name
        assert "\n" not in found.text, name
    assert {found.group for found in purposes().values()} == GROUPS


def test_what_linux_does_not_do_is_told() -> None:
    for name in (
        "afs_syscall",
        "create_module",
        "epoll_ctl_old",
        "nfsservctl",
        "tuxcall",
        "vserver",
        "_sysctl",
    ):
        assert "not implemented" in purpose(name).text
    for name in ("epoll_create", "inotify_init", "tkill", "ustat", "remap_file_pages"):
        assert "obsolete" in purpose(name).text


def test_names_of_32_bit_programs_mean_the_same_calls() -> None:
    for name, same in {"mmap2": "mmap", "fstat64": "fstat", "getuid32": "getuid", "waitpid": "wait4"}.items():
        assert purpose(name) == purposes()[same]
    assert purpose("futex_time64") == purposes()["futex"]
    assert purpose("no_such_call").group == UNKNOWN_GROUP


def test_a_call_newer_than_strace_is_named_by_its_number() -> None:
    table = syscalls().load_arch_table("arm64")
    for name, number in table.items():
        if number >= COMMON_NUMBERS:
            assert resolve(f"syscall_{number:#x}") == name
    assert resolve("syscall_0xfffff") == "syscall_0xfffff"
