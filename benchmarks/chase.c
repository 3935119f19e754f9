/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least there is to say about the latency of memory: a chase of pointers, one every STRIDE bytes of anonymous memory, linked into one
 * ring by Sattolo's algorithm. Each repetition goes on where the last one ended, by CLOCK_MONOTONIC_RAW.
 * The independent reference for `memory.latency order=random`.
 *
 * usage: chase BYTES STRIDE LOADS REPETITIONS CPU 4K|huge      prints ns a load, one line a repetition; LOADS is rounded up to 100s
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_BYTES (2ul << 20)
#define MOST_WARMING (1l << 16)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* xorshift64* (Vigna, 2016) */
static uint64_t random_number(void)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 2685821657736338717ull;
}

static char *map(size_t bytes, int advice)
{
	char *memory = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	memory = (char *)(((uintptr_t)memory + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES);
	if (madvise(memory, bytes, advice))
		return NULL;
	memset(memory, 0, bytes);
	return memory;
}

static int link_all(char *memory, size_t stride, size_t slots)
{
	uint32_t *next = malloc(slots * sizeof(*next));

	if (!next)
		return -1;
	for (size_t i = 0; i < slots; i++)
		next[i] = i;
	for (size_t i = slots - 1; i > 0; i--) {
		size_t j = random_number() % i;
		uint32_t kept = next[i];

		next[i] = next[j];
		next[j] = kept;
	}
	for (size_t i = 0; i < slots; i++)
		*(void **)(memory + i * stride) = memory + next[i] * stride;
	free(next);
	return 0;
}

#define ONE at = *(void **)at;
#define TEN ONE ONE ONE ONE ONE ONE ONE ONE ONE ONE
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static __attribute__((noinline)) void *chase(void *at, long hundreds)
{
	while (hundreds-- > 0) {
		HUNDRED
	}
	return at;
}

int main(int argc, char **argv)
{
	cpu_set_t set;

	if (argc != 7) {
		fprintf(stderr, "usage: chase BYTES STRIDE LOADS REPETITIONS CPU 4K|huge\n");
		return 2;
	}
	size_t bytes = strtoull(argv[1], NULL, 0), stride = strtoull(argv[2], NULL, 0), slots = bytes / stride;
	long hundreds = (atol(argv[3]) + 99) / 100, repetitions = atol(argv[4]);
	int huge = !strcmp(argv[6], "huge");

	CPU_ZERO(&set);
	CPU_SET(atoi(argv[5]), &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("chase: sched_setaffinity");
		return 1;
	}
	if (huge)
		bytes = (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
	char *memory = map(bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);

	if (!memory || slots < 2 || link_all(memory, stride, slots)) {
		fprintf(stderr, "chase: no memory for so many slots, or fewer than two\n");
		return 1;
	}
	void *at = memory;
	long warming = (long)slots < MOST_WARMING ? (long)slots : MOST_WARMING;

	for (long r = 0; r <= repetitions; r++) {
		at = chase(at, (warming + 99) / 100);
		double begin = now();
		at = chase(at, hundreds);
		double end = now();
		if (r > 0) /* the first repetition warms up */
			printf("%.4f\n", (end - begin) / (hundreds * 100));
	}
	/* Where it ended: the compiler cannot leave out the loads. */
	fprintf(stderr, "%td\n", (char *)at - memory);
	return 0;
}
