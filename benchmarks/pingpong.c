/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least there is to say about a message there and back: two processes, two pipes or a pair of sockets, and a reading of the clock after
 * each round trip. The independent reference for `ipc.latency mode=2proc` (placement same: one CPU twice; other: two).
 *
 * usage: pingpong pipe|local SIZE ROUND_TRIPS REPETITIONS CPU CPU
 *        prints the median of the round trips in nanoseconds, one line a repetition
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(const char *cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(atoi(cpu), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("pingpong: pinning");
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_RAW, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void send_all(int to, const char *message, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t count = write(to, message + done, size - done);

		if (count <= 0)
			die("pingpong: write");
		done += count;
	}
}

/* Whether there was a message. */
static int receive_all(int from, char *message, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t count = read(from, message + done, size - done);

		if (count < 0)
			die("pingpong: read");
		if (count == 0)
			return 0;
		done += count;
	}
	return 1;
}

static int rising(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

/* The median of the round trips. */
static uint64_t once(int to, int from, char *message, size_t size, uint64_t *times, long rounds)
{
	uint64_t last = now(), time;

	for (long round = 0; round < rounds; round++) {
		send_all(to, message, size);
		if (!receive_all(from, message, size))
			die("pingpong: the other side has gone");
		time = now();
		times[round] = time - last;
		last = time;
	}
	qsort(times, rounds, sizeof(*times), rising);
	return times[rounds / 2];
}

int main(int argc, char **argv)
{
	int there[2], back[2];
	uint64_t *times;
	char *message;
	size_t size;
	long rounds;
	pid_t child;

	if (argc != 7) {
		fprintf(stderr, "usage: pingpong pipe|local SIZE ROUND_TRIPS REPETITIONS CPU CPU\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 10);
	rounds = atol(argv[3]);
	message = calloc(1, size);
	times = calloc(rounds, sizeof(*times));
	if (!message || !times || rounds < 1)
		die("pingpong: memory");
	if (!strcmp(argv[1], "pipe")) {
		if (pipe(there) || pipe(back))
			die("pingpong: pipe");
	} else { /* one end of the pair each, both ways */
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			die("pingpong: socketpair");
		there[1] = back[0] = pair[0];
		there[0] = back[1] = pair[1];
	}
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(argv[6]);
		close(there[1]);
		if (back[0] != there[1])
			close(back[0]);
		while (receive_all(there[0], message, size))
			send_all(back[1], message, size);
		_exit(0);
	}
	if (child < 0)
		die("pingpong: fork");
	pin(argv[5]);
	for (long r = -1; r < atol(argv[4]); r++) { /* the first one warms up */
		uint64_t median = once(there[1], back[0], message, size, times, rounds);

		if (r >= 0)
			printf("%lu\n", median);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
