/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least there is to say about the cost of fork(): a child that leaves its time stamp in a shared page and ends.
 * The independent reference for `process.create how=fork placement=same`, which measures the same three moments.
 *
 * oscope-probe has more mappings and written pages to copy, and reads /proc between the children, which cools the caches: with the same
 * mappings and readings in this program the two agree, as they do where RESIDENT outweighs them.
 *
 * usage: fork REPETITIONS CPU RESIDENT_BYTES
 *        prints cycles of the time-stamp counter until the child runs, until the parent goes on, and until the child is reaped,
 *        one line a repetition
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE 4096UL

static uint64_t now(void)
{
	unsigned int cpu;
	uint64_t ticks = __rdtscp(&cpu);

	_mm_lfence();
	return ticks;
}

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* Memory that fork() has page tables to copy of, in base pages. */
static int touch(size_t bytes)
{
	char *memory;

	if (!bytes)
		return 0;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	madvise(memory, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, and needs no advice */
	for (size_t place = 0; place < bytes; place += PAGE)
		((volatile char *)memory)[place] = 1;
	return 0;
}

/* One child: 0, or -1 if it could not be made or ended badly. */
static int once(volatile uint64_t *stamp, int print)
{
	uint64_t called, returned, reaped;
	int status;
	pid_t child;

	*stamp = 0;
	called = now();
	child = fork();
	returned = now();
	if (child == 0) {
		*stamp = returned;
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	reaped = now();
	if (!WIFEXITED(status) || WEXITSTATUS(status) || !*stamp)
		return -1;
	if (print)
		printf("%lu %lu %lu\n", *stamp - called, returned - called, reaped - called);
	return 0;
}

int main(int argc, char **argv)
{
	volatile uint64_t *stamp;

	if (argc != 4) {
		fprintf(stderr, "usage: fork REPETITIONS CPU RESIDENT_BYTES\n");
		return 2;
	}
	stamp = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (stamp == MAP_FAILED || pin(atoi(argv[2])) || touch(strtoull(argv[3], NULL, 10))) {
		perror("fork: setting up");
		return 1;
	}
	setvbuf(stdout, NULL, _IOFBF, 1 << 20); /* no write between repetitions */
	for (long r = -5; r < atol(argv[1]); r++) { /* the first ones warm up */
		if (once(stamp, r >= 0)) {
			perror("fork: a child");
			return 1;
		}
	}
	return 0;
}
