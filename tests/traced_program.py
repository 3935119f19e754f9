"""A small C program whose system calls are known, waiting to be traced."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TIME_LIMIT_S = 60

SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long calls;

static void *work(void *unused)
{
	for (long i = 0; i < calls; i++)
		syscall(SYS_getppid);
	return unused;
}

/* PROGRAM CALLS WAY [wait]: getppid CALLS times in each thread or process, and 7 calls that fail. */
int main(int count, char **words)
{
	pthread_t thread;
	char byte;
	int waits = count > 3;

	calls = atol(words[1]);
	if (waits && (write(1, "r", 1) != 1 || read(0, &byte, 1) != 1))
		return 2;
	work(NULL);
	if (!strcmp(words[2], "thread")) {
		pthread_create(&thread, NULL, work, NULL);
		pthread_join(thread, NULL);
	}
	if (!strcmp(words[2], "fork")) {
		if (fork() == 0) {
			work(NULL);
			_exit(0);
		}
		wait(NULL);
	}
	for (int i = 0; i < 7; i++)
		close(-1);
	if (waits && (write(1, "d", 1) != 1 || read(0, &byte, 1) != 1))
		return 2;
	return 5;
}
"""
STATUS = 5
FAILING_CLOSES = 7
TASKS = {"alone": 1, "thread": 2, "fork": 2}
"""How many threads or processes make the calls, by the way."""


def build(folder: Path) -> Path:
    """Compile the program."""
    source = folder / "calls.c"
    source.write_text(SOURCE)
    program = folder / "calls"
    subprocess.run(
        ["cc", "-O1", "-pthread", "-o", str(program), str(source)], check=True, timeout=TIME_LIMIT_S
    )
    return program


class Waiting:
    """The program, waiting before its calls and after them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def go(self) -> None:
        """Have it make its calls."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"g")
        assert self._process.stdout.read(1) == b"d"

    def end(self) -> int:
        """Let it end, and return its status."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"g")
        return self._process.wait(TIME_LIMIT_S)


@contextmanager
def waiting(program: Path, calls: int, way: str) -> Iterator[Waiting]:
    """Start the program and give it while it waits; it does not outlive the test."""
    words = [str(program), str(calls), way, "wait"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"r"
        try:
            yield Waiting(process)
        finally:
            process.kill()


def tracer_pid(pid: int) -> int:
    """Return which process traces `pid` by ptrace; 0 for none."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("TracerPid:"))
    return int(line.split()[1])
