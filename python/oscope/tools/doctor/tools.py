"""The programs that labs call, and the trial of each."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass

from oscope.model.finding import Finding, as_root
from oscope.trace import launch

TRIAL_TIME_LIMIT_S = 15
"""bpftrace compiles and loads a program in its trial, which takes seconds on a slow machine."""


@dataclass(frozen=True)
class Tool:
    """A program that a lab calls, and the trial that shows that it works here."""

    name: str
    package: str
    needed_for: str
    version: tuple[str, ...] = ("--version",)
    trial: tuple[str, ...] | None = None
    """Arguments of a run that does the least real work; None: its version is all that is asked."""
    trial_needs_root: bool = False


TOOLS = (
    Tool(
        "bpftrace",
        "bpftrace",
        "tracing: --trace, oscope trace",
        trial=("-e", "BEGIN { exit(); }"),
        trial_needs_root=True,
    ),
    Tool("strace", "strace", "trace.effect", trial=("-qq", "-e", "trace=none", "true")),
    Tool(
        "perf",
        "linux-perf",
        "make bench, trace.effect",
        trial=("stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "true"),
        trial_needs_root=True,
    ),
    Tool("qemu-system-x86_64", "qemu-system-x86", "guests under other kernels"),
    Tool("fio", "fio", "the disk lab, beside Oscope"),
    Tool("tcpdump", "tcpdump", "network captures"),
    Tool("dnsmasq", "dnsmasq-base", "the DHCP lab"),
    Tool("busybox", "busybox", "the DHCP lab", version=("--help",)),
    Tool("ssh", "openssh-client", "oscope fs", version=("-V",)),
    Tool("sshfs", "sshfs", "the file system lab, beside Oscope"),
    Tool("chromium", "chromium", "the test that opens the report; no measurement"),
)


def try_tool(tool: Tool) -> Finding:
    """Run the tool: first for its version, then in its trial."""
    path = shutil.which(tool.name)
    if path is None:
        remedy = as_root(f"apt-get install {tool.package}")
        return Finding(tool.name, "missing", "not installed", tool.needed_for, remedy)
    answer = _run([path, *tool.version])
    if isinstance(answer, OSError) or answer.returncode != 0:
        remedy = as_root(f"apt-get install --reinstall {tool.package}")
        return Finding(
            tool.name, "missing", f"{path} does not start: {_reason(answer)}", tool.needed_for, remedy
        )
    reported = _first_line(answer.stdout or answer.stderr)
    number = re.search(r"\d+(\.\d+)+\S*", reported)
    version = number.group() if number else reported
    if tool.trial is None:
        return Finding(tool.name, "ok", version, tool.needed_for)
    if tool.trial_needs_root and os.geteuid() != 0:
        return Finding(tool.name, "limited", f"{version}; needs root", tool.needed_for, "sudo oscope …")
    # Perf would mount tracefs for all to see.
    trial = _run(launch.command(path, *tool.trial) if tool.trial_needs_root else [path, *tool.trial])
    if isinstance(trial, OSError) or trial.returncode != 0:
        remedy = f"see what it says: {shlex.join([tool.name, *tool.trial])}"
        return Finding(
            tool.name, "missing", f"{version}; its trial fails: {_reason(trial)}", tool.needed_for, remedy
        )
    return Finding(tool.name, "ok", f"{version}; tried", tool.needed_for)


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | OSError:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=TRIAL_TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TimeoutError(f"no answer within {TRIAL_TIME_LIMIT_S} s")
    except OSError as error:
        return error


def _reason(answer: subprocess.CompletedProcess[str] | OSError) -> str:
    if isinstance(answer, OSError):
        return answer.strerror or str(answer)
    return _first_line(answer.stderr or answer.stdout) or f"exit status {answer.returncode}"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""
