/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least there is to say about throughput: one side writes blocks into a pipe or a local socket, the other reads them.
 * The independent reference for `ipc.throughput` with check=none; a round lasts until the reader has everything.
 *
 * usage: ipc pipe|local 1thread|2thread|2proc BUFFER TOTAL ROUNDS [READER_CPU WRITER_CPU]      prints KiB/s, one line a round
 * Each round waits for a line on standard input, and is run twice: once to warm up.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int input, output, shared_cpu;
static size_t size, total;
static long rounds;
static int writer_cpu = -1;
static atomic_long *arrived;
static sem_t *here;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static char *buffer(void)
{
	/* malloc's would begin 16 B into a page, which halves the speed of the kernel's copying. */
	char *memory = aligned_alloc(4096, size);

	if (!memory)
		die("aligned_alloc");
	memset(memory, 1, size);
	return memory;
}

/*
 * Wait until both sides have come here so many times: running, or asleep where both share a CPU, since one that yields is scheduled otherwise for
 * a while.
 */
static void meet(int side, long times)
{
	if (shared_cpu) {
		if (sem_post(&here[!side]) || sem_wait(&here[side]))
			die("semaphore");
		return;
	}
	atomic_fetch_add(arrived, 1);
	while (atomic_load(arrived) < 2 * times)
		;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void *write_rounds(void *unused)
{
	char *from = buffer();

	pin(writer_cpu);
	for (long r = 0; r < 2 * rounds; r++) {
		meet(0, r + 1);
		for (size_t done = 0; done < total;) {
			ssize_t n = write(output, from, least(size, total - done));

			if (n < 0)
				die("write");
			done += n;
		}
	}
	return unused;
}

static void read_round(char *to)
{
	for (size_t done = 0; done < total;) {
		ssize_t n = read(input, to, size);

		if (n <= 0)
			die("read");
		done += n;
	}
}

/* Both ends refuse to wait: write what fits, read what is there. */
static void round_alone(const char *from, char *to)
{
	for (size_t sent = 0, done = 0; done < total;) {
		/* A write that was short goes on where it stopped, as the data would have it. */
		size_t at = sent % size;
		ssize_t n = sent < total ? write(output, from + at, least(size - at, total - sent)) : 0;

		if (n < 0 && errno != EAGAIN)
			die("write");
		sent += n > 0 ? n : 0;
		n = read(input, to, size);
		if (n < 0 && errno != EAGAIN)
			die("read");
		done += n > 0 ? n : 0;
	}
}

static void read_rounds(int alone)
{
	char *to = buffer(), *from = buffer();

	for (long r = 0; r < 2 * rounds; r++) {
		if (r % 2 == 0 && getchar() == EOF)
			exit(1);
		/* Read before the writer is let go: it would otherwise have filled the channel by then. */
		double begin = now();

		if (!alone)
			meet(1, r + 1);
		if (alone)
			round_alone(from, to);
		else
			read_round(to);
		double time = now() - begin;

		if (r % 2 == 1) {
			printf("%.1f\n", total / 1024.0 / time);
			fflush(stdout);
		}
	}
}

int main(int argc, char **argv)
{
	int ends[2];
	pthread_t thread;

	if (argc != 6 && argc != 8) {
		fprintf(stderr, "usage: ipc pipe|local 1thread|2thread|2proc BUFFER TOTAL ROUNDS [READER_CPU WRITER_CPU]\n");
		return 2;
	}
	const char *mode = argv[2];

	size = strtoull(argv[3], NULL, 0);
	total = strtoull(argv[4], NULL, 0);
	rounds = atol(argv[5]);
	if (argc == 8) {
		pin(atoi(argv[6]));
		writer_cpu = atoi(argv[7]);
		shared_cpu = !strcmp(argv[6], argv[7]);
	}
	here = mmap(NULL, 2 * sizeof(*here) + sizeof(*arrived), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	arrived = (atomic_long *)(here + 2);
	if (here == MAP_FAILED || sem_init(here, 1, 0) || sem_init(here + 1, 1, 0) || (strcmp(argv[1], "local") ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)))
		die("ipc");
	input = ends[0];
	output = ends[1];
	if (!strcmp(mode, "1thread")) {
		if (fcntl(input, F_SETFL, O_NONBLOCK) || fcntl(output, F_SETFL, O_NONBLOCK))
			die("fcntl");
		read_rounds(1);
	} else if (!strcmp(mode, "2thread")) {
		if (pthread_create(&thread, NULL, write_rounds, NULL))
			die("pthread_create");
		read_rounds(0);
		pthread_join(thread, NULL);
	} else {
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (child == 0) {
			write_rounds(NULL);
			_exit(0);
		}
		read_rounds(0);
		waitpid(child, NULL, 0);
	}
	return 0;
}
