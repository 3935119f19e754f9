/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least there is to say about the bandwidth of memory: threads on CPUs of their own go over their shares of anonymous memory in 4 KiB
 * pages, in the plain loops of STREAM (McCalpin, 1995). read: the XOR of all words; write: all words are set; copy: into a second array,
 * each byte counted once. A repetition lasts from the first thread's start to the last one's end, by CLOCK_MONOTONIC_RAW.
 * The independent reference for `memory.bandwidth`; compile with -O3 -march=native, as STREAM is.
 *
 * usage: bandwidth read|write|copy BYTES REPETITIONS CPU [CPU]...      prints MiB/s, one line a repetition
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct worker {
	pthread_t thread;
	int cpu;
	unsigned long *share, *into;
	size_t words;
	double begin, end;
};

static enum { READ, WRITE, COPY } operation;
static struct worker *all;
static long workers, repetitions;
static atomic_long arrived;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Wait, running, until all have come here so many times. */
static void meet(long times)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < times * workers)
		sched_yield();
}

static __attribute__((noinline)) unsigned long fold(const unsigned long *from, size_t words)
{
	unsigned long folded = 0;

	for (size_t i = 0; i < words; i++)
		folded ^= from[i];
	return folded;
}

static __attribute__((noinline)) void set(unsigned long *into, size_t words, unsigned long value)
{
	for (size_t i = 0; i < words; i++)
		into[i] = value;
}

static __attribute__((noinline)) void copy(unsigned long *restrict into, const unsigned long *restrict from, size_t words)
{
	for (size_t i = 0; i < words; i++)
		into[i] = from[i];
}

/* Go over the share; what must be the same after each repetition. */
static unsigned long pass(struct worker *w, long repetition)
{
	switch (operation) {
	case READ:
		return fold(w->share, w->words);
	case WRITE:
		set(w->share, w->words, repetition);
		return 0;
	default:
		copy(w->into, w->share, w->words);
		return 0;
	}
}

/* Whether what the repetition wrote is there, looked at in every page. */
static int wrong(const struct worker *w, long repetition)
{
	for (size_t i = 0; i < w->words; i += 511)
		if ((operation == WRITE && w->share[i] != (unsigned long)repetition) ||
		    (operation == COPY && w->into[i] != w->share[i]))
			return 1;
	return 0;
}

static void print(void)
{
	double begin = all[0].begin, end = all[0].end, bytes = 0;

	for (long i = 0; i < workers; i++) {
		begin = all[i].begin < begin ? all[i].begin : begin;
		end = all[i].end > end ? all[i].end : end;
		bytes += all[i].words * sizeof(long);
	}
	printf("%.1f\n", bytes / (1 << 20) / (end - begin) * 1e9);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(w->cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
		perror("sched_setaffinity");
		exit(1);
	}
	for (size_t i = 0; i < w->words; i++)
		w->share[i] = (i + 1) * 0x9e3779b97f4a7c15ul;
	if (operation == COPY)
		set(w->into, w->words, 0);
	unsigned long expected = operation == READ ? fold(w->share, w->words) : 0;

	for (long r = 0; r <= repetitions; r++) {
		meet(2 * r + 1);
		w->begin = now();
		unsigned long found = pass(w, r);
		w->end = now();
		if (found != expected || wrong(w, r)) {
			fprintf(stderr, "bandwidth: a word is not what it must be\n");
			exit(1);
		}
		meet(2 * r + 2);
		if (w == all && r > 0) /* the first repetition warms up */
			print();
	}
	return NULL;
}

static unsigned long *map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE)) {
		perror("bandwidth: memory");
		exit(1);
	}
	return memory;
}

int main(int argc, char **argv)
{
	const char *operations[] = { "read", "write", "copy" };

	if (argc < 5) {
		fprintf(stderr, "usage: bandwidth read|write|copy BYTES REPETITIONS CPU [CPU]...\n");
		return 2;
	}
	while (operation <= COPY && strcmp(argv[1], operations[operation]))
		operation++;
	if (operation > COPY) {
		fprintf(stderr, "bandwidth: %s is not read, write or copy\n", argv[1]);
		return 2;
	}
	size_t bytes = strtoull(argv[2], NULL, 0);

	repetitions = atol(argv[3]);
	workers = argc - 4;
	all = calloc(workers, sizeof(*all));
	if (!all) {
		perror("bandwidth");
		return 1;
	}
	size_t words = bytes / workers / 4096 * 4096 / sizeof(long);
	unsigned long *memory = map(bytes), *into = operation == COPY ? map(bytes) : memory;

	for (long i = 0; i < workers; i++)
		all[i] = (struct worker){
			.cpu = atoi(argv[4 + i]), .share = memory + i * words, .into = into + i * words, .words = words
		};
	for (long i = 1; i < workers; i++)
		if (pthread_create(&all[i].thread, NULL, work, &all[i])) {
			fprintf(stderr, "bandwidth: no thread\n");
			return 1;
		}
	work(all);
	for (long i = 1; i < workers; i++)
		pthread_join(all[i].thread, NULL);
	return 0;
}
