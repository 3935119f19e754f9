/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The document's do_mem_access: working sets of 512 lines, each walked 16 times, one line in 8 written and the others read. A round maps
 * anonymous memory afresh, in base pages, writes over a buffer of 16 MiB to flush the caches, and walks. The independent reference for
 * `memory.access`; compile with -O2, as the document does.
 *
 * usage: access seq|random full|first64th SIZE SETS ROUNDS      prints nanoseconds a set, one line a round
 * Each round waits for a line on standard input.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define CACHE_LINE_SIZE 64
#define FLUSHED (16UL << 20)

static int opt_random_access;
static long unit; /* bytes that a base of 1 stands for: 1 is the document's bug */

/* xorshift128 of G. Marsaglia, "Xorshift RNGs", 2003, with his seeds. */
static unsigned int x, y, z, w;

static void seed(void)
{
	x = 123456789, y = 362436069, z = 521288629, w = 88675123;
}

static unsigned int simplerand(void)
{
	unsigned int t = x ^ (x << 11);

	x = y, y = z, z = w;
	return w = w ^ (w >> 19) ^ t ^ (t >> 8);
}

__attribute__((noinline)) static void do_mem_access(char *p, long size, long sets)
{
	long outer;
	int locality, i;
	int ws_base = 0;
	int max_base = size / CACHE_LINE_SIZE - 512;

	/* Counting down saves a register: no line of the stack then comes between the lines of the walk in the L1D. */
	for (outer = sets; outer > 0; outer--) {
		long r = simplerand() % max_base;

		if (opt_random_access) {
			ws_base = r;
		} else {
			ws_base += 512;
			if (ws_base >= max_base)
				ws_base = 0;
		}
		for (locality = 0; locality < 16; locality++) {
			volatile char *a;
			char c;

			for (i = 0; i < 512; i++) {
				a = p + ws_base * unit + (long)i * CACHE_LINE_SIZE;
				if (i % 8 == 0)
					*a = 1;
				else
					c = *a;
			}
			(void)c;
		}
	}
}

static char *map(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("access: mmap");
		exit(1);
	}
	madvise(memory, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, and needs no advice */
	return memory;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void once(long size, long sets)
{
	char *memory = map(size);
	volatile char *flushed = map(FLUSHED);
	double begin, end;

	for (size_t at = 0; at < FLUSHED; at += CACHE_LINE_SIZE)
		flushed[at] = 1;
	seed();
	begin = now();
	do_mem_access(memory, size, sets);
	end = now();
	printf("%.2f\n", (end - begin) / sets);
	fflush(stdout);
	munmap(memory, size);
	munmap((char *)flushed, FLUSHED);
}

int main(int argc, char **argv)
{
	if (argc != 6 || (strcmp(argv[1], "seq") && strcmp(argv[1], "random")) ||
	    (strcmp(argv[2], "full") && strcmp(argv[2], "first64th"))) {
		fprintf(stderr, "usage: access seq|random full|first64th SIZE SETS ROUNDS\n");
		return 2;
	}
	long size = atol(argv[3]), sets = atol(argv[4]);

	if (size < 65536 || size > 1L << 37 || sets < 1) {
		fprintf(stderr, "access: SIZE is 64 KiB to 128 GiB, and SETS at least 1\n");
		return 2;
	}
	opt_random_access = !strcmp(argv[1], "random");
	unit = !strcmp(argv[2], "full") ? CACHE_LINE_SIZE : 1;
	for (long round = atol(argv[5]); round > 0 && getchar() != EOF; round--)
		once(size, sets);
	return 0;
}
