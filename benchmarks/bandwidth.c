/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least there is to say about the bandwidth of memory: threads on CPUs of their own XOR their shares of anonymous memory in 4 KiB pages.
 * A repetition lasts from the first thread's start to the last one's end, by CLOCK_MONOTONIC_RAW.
 * The independent reference for `memory.bandwidth operation=read`. Needs x86 with AVX2.
 *
 * usage: bandwidth BYTES REPETITIONS CPU [CPU]...      prints MiB/s, one line a repetition
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct worker {
	pthread_t thread;
	int cpu;
	char *share;
	size_t bytes;
	double begin, end;
};

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

__attribute__((target("avx2"), noinline)) static unsigned long fold(const char *data, size_t bytes)
{
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
	unsigned long words[4];

	for (const __m256i *at = (const __m256i *)data; (const char *)at < data + bytes; at += 4) {
		a = _mm256_xor_si256(a, _mm256_load_si256(at));
		b = _mm256_xor_si256(b, _mm256_load_si256(at + 1));
		c = _mm256_xor_si256(c, _mm256_load_si256(at + 2));
		d = _mm256_xor_si256(d, _mm256_load_si256(at + 3));
	}
	a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
	_mm256_storeu_si256((__m256i *)words, a);
	return words[0] ^ words[1] ^ words[2] ^ words[3];
}

static void print(void)
{
	double begin = all[0].begin, end = all[0].end, bytes = 0;

	for (long i = 0; i < workers; i++) {
		begin = all[i].begin < begin ? all[i].begin : begin;
		end = all[i].end > end ? all[i].end : end;
		bytes += all[i].bytes;
	}
	printf("%.1f\n", bytes / (1 << 20) / (end - begin) * 1e9);
}

static void *work(void *argument)
{
	struct worker *w = argument;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(w->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
	for (size_t i = 0; i < w->bytes; i++)
		w->share[i] = i * 2654435761u >> 24;
	unsigned long expected = fold(w->share, w->bytes);

	for (long r = 0; r <= repetitions; r++) {
		meet(2 * r + 1);
		w->begin = now();
		unsigned long folded = fold(w->share, w->bytes);
		w->end = now();
		if (folded != expected) {
			fprintf(stderr, "bandwidth: the XOR changed\n");
			exit(1);
		}
		meet(2 * r + 2);
		if (w == all && r > 0) /* the first repetition warms up */
			print();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: bandwidth BYTES REPETITIONS CPU [CPU]...\n");
		return 2;
	}
	size_t bytes = strtoull(argv[1], NULL, 0);

	repetitions = atol(argv[2]);
	workers = argc - 3;
	all = calloc(workers, sizeof(*all));
	size_t share = bytes / workers / 4096 * 4096;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!all || memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE)) {
		perror("bandwidth: memory");
		return 1;
	}
	for (long i = 0; i < workers; i++)
		all[i] = (struct worker){ .cpu = atoi(argv[3 + i]), .share = memory + i * share, .bytes = share };
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
