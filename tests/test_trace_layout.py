"""Where members of the kernel's structures lie, beside what bpftrace reads by their names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from oscope.trace import launch, layout
from oscope.trace.tracer import TraceUnavailable

OF_MM = ("start_brk", "brk", "stack_vm", "env_end", "start_stack", "start_code", "end_data")


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("bpftrace") is None, reason="bpftrace is not installed, or needs root"
)
def test_members_are_where_bpftrace_finds_them_by_name() -> None:
    lines = ["$task = (struct task_struct *)curtask;"]
    for name in OF_MM:
        offset = layout.offsets("task_struct")["mm"]
        address = f"*(uint64 *)kptr((uint64)curtask + {offset}) + {layout.offsets('mm_struct')[name]}"
        lines.append(f'printf("{name} %lx %lx\\n", $task->mm->{name}, *(uint64 *)kptr({address}));')
    signal = layout.offsets("task_struct")["signal"]
    address = f"*(uint64 *)kptr((uint64)curtask + {signal}) + {layout.offsets('signal_struct')['live']}"
    lines.append(f'printf("live %x %x\\n", $task->signal->live.counter, *(int32 *)kptr({address}));')
    answer = subprocess.run(
        launch.command("bpftrace", "-e", f"BEGIN {{ {' '.join(lines)} exit(); }}"),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = [line.split() for line in answer.stdout.splitlines() if line.startswith((*OF_MM, "live"))]
    assert [name for name, _, _ in found] == [*OF_MM, "live"]
    assert all(by_name == by_place != "0" for _, by_name, by_place in found), found


def test_a_structure_that_the_kernel_lacks_is_told() -> None:
    with pytest.raises(TraceUnavailable, match="no struct no_such_struct"):
        layout.offsets("no_such_struct")


def test_a_kernel_that_tells_nothing_of_its_types_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_KERNEL", Path("/nowhere/vmlinux"))
    layout.offsets.cache_clear()
    with pytest.raises(TraceUnavailable, match="does not describe its types") as refusal:
        layout.offsets("task_struct")
    assert "BTF" in str(refusal.value.remedy)
    layout.offsets.cache_clear()


def test_a_library_that_is_absent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_LIBRARY", "libbpf.so.999")
    layout.offsets.cache_clear()
    with pytest.raises(TraceUnavailable, match=r"libbpf.so.999"):
        layout.offsets("task_struct")
    layout.offsets.cache_clear()
