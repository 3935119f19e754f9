/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least there is to say about the cost of a system call: a loop of getppid() between two readings of CLOCK_MONOTONIC_RAW.
 * The independent reference for `syscall.cost call=getppid style=loop`.
 *
 * usage: getppid CALLS REPETITIONS CPU      prints nanoseconds a call, one line a repetition
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: getppid CALLS REPETITIONS CPU\n");
		return 2;
	}
	long calls = atol(argv[1]), repetitions = atol(argv[2]);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(atoi(argv[3]), &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		return 1;
	}
	for (long r = -1; r < repetitions; r++) {
		double begin = now();

		for (long i = 0; i < calls; i++)
			getppid();
		double end = now();

		if (r >= 0) /* the first repetition warms up */
			printf("%.4f\n", (end - begin) / calls);
	}
	return 0;
}
