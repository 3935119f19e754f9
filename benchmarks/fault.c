/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least there is to say about the cost of a page fault: memory made anew, then a byte of each page touched between two readings of the
 * time-stamp counter. The independent reference for `memory.fault threads=1`.
 *
 * A file is mapped page by page, neighbours exchanged, since one read fault would otherwise map the pages around it too. For file-major
 * the file is put out of the page cache by posix_fadvise, and mincore proves it.
 *
 * usage: fault KIND REPETITIONS CPU BYTES [FILE]     KIND: zero-page anonymous file file-major copy-on-write huge
 *        prints nanoseconds a fault, the faults counted and those of them that were major, one line a repetition
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define HUGE_PAGE (2UL << 20)

struct job {
	const char *kind;
	size_t bytes, page;
	int file;
	pid_t child;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int is(const struct job *job, const char *kind)
{
	return !strcmp(job->kind, kind);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_RAW, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static volatile char *place(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		die("fault: mmap");
	return memory;
}

static void make_cold(const struct job *job)
{
	size_t pages = job->bytes / PAGE;
	unsigned char *answer = malloc(pages);
	void *memory = mmap(NULL, job->bytes, PROT_READ, MAP_SHARED, job->file, 0);

	if (posix_fadvise(job->file, 0, 0, POSIX_FADV_DONTNEED) || memory == MAP_FAILED || !answer)
		die("fault: emptying the page cache");
	if (mincore(memory, job->bytes, answer))
		die("fault: mincore");
	for (size_t page = 0; page < pages; page++)
		if (answer[page] & 1) {
			fprintf(stderr, "fault: page %zu stays in the page cache\n", page);
			exit(1);
		}
	munmap(memory, job->bytes);
	free(answer);
}

static void make_warm(const struct job *job)
{
	static char block[1 << 20];

	for (size_t at = 0; at < job->bytes; at += sizeof(block))
		if (pread(job->file, block, sizeof(block), at) < 0)
			die("fault: reading the file");
}

static volatile char *map_file(const struct job *job)
{
	volatile char *memory = place(job->bytes);

	for (size_t at = 0; at < job->bytes; at += PAGE) {
		size_t beside = at ^ PAGE;
		size_t offset = beside < job->bytes ? beside : at;

		if (mmap((char *)memory + at, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, job->file, offset) == MAP_FAILED)
			die("fault: mapping a page (vm.max_map_count?)");
	}
	if (madvise((char *)memory, job->bytes, MADV_RANDOM))
		die("fault: madvise");
	if (is(job, "file-major"))
		make_cold(job);
	else
		make_warm(job);
	return memory;
}

/* A child that holds the memory until it is killed. */
static pid_t hold(void)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	if (child < 0)
		die("fault: fork");
	return child;
}

static volatile char *make(struct job *job)
{
	volatile char *memory;

	if (job->file >= 0)
		return map_file(job);
	if (is(job, "huge")) { /* whole huge pages; what lies before them is lost until the program ends */
		memory = place(job->bytes + HUGE_PAGE);
		memory += -(uintptr_t)memory % HUGE_PAGE;
		if (madvise((char *)memory, job->bytes, MADV_HUGEPAGE))
			die("fault: madvise(MADV_HUGEPAGE)");
		return memory;
	}
	memory = place(job->bytes);
	madvise((char *)memory, job->bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, and needs no advice */
	if (is(job, "copy-on-write")) {
		for (size_t at = 0; at < job->bytes; at += PAGE)
			memory[at] = 1;
		job->child = hold();
		usleep(1); /* the kernel writes to this thread's rseq area when it was off its CPU: that fault is not to be counted */
	}
	return memory;
}

static void touch(const struct job *job, volatile char *memory)
{
	size_t at;

	if (job->file >= 0 || is(job, "zero-page"))
		for (at = 0; at < job->bytes; at += job->page)
			(void)memory[at];
	else
		for (at = 0; at < job->bytes; at += job->page)
			memory[at] = 2;
}

static void once(struct job *job, int print)
{
	volatile char *memory = make(job);
	struct rusage before, after;
	uint64_t begin, end;
	long faults, major;

	getrusage(RUSAGE_THREAD, &before); /* after a fork, handing over the answer is a fault itself */
	getrusage(RUSAGE_THREAD, &before);
	begin = now();
	touch(job, memory);
	end = now();
	getrusage(RUSAGE_THREAD, &after);
	major = after.ru_majflt - before.ru_majflt;
	faults = after.ru_minflt - before.ru_minflt + major;
	if (print)
		printf("%.1f %ld %ld\n", (double)(end - begin) / (job->bytes / job->page), faults, major);
	munmap((char *)memory, job->bytes);
	if (job->child > 0) {
		kill(job->child, SIGKILL);
		waitpid(job->child, NULL, 0);
		job->child = 0;
	}
}

int main(int argc, char **argv)
{
	struct job job = { .page = PAGE, .file = -1 };
	cpu_set_t set;

	if (argc < 5) {
		fprintf(stderr, "usage: fault KIND REPETITIONS CPU BYTES [FILE]\n");
		return 2;
	}
	job.kind = argv[1];
	job.bytes = strtoull(argv[4], NULL, 10);
	if (is(&job, "huge"))
		job.page = HUGE_PAGE;
	if (argc > 5 && (job.file = open(argv[5], O_RDONLY)) < 0)
		die(argv[5]);
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[3]), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("fault: pinning");
	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	for (long r = -1; r < atol(argv[2]); r++) /* the first one warms up */
		once(&job, r >= 0);
	return 0;
}
