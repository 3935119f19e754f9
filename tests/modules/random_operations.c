// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Random sequences of calls on both devices of kernel/modules, connected over loopback, good arguments
 * and bad. What comes is checked against what went, new pages against zeros, each error against the list
 * of those that a caller may see. The rest is the kernel's to tell: run it under kernel/configs/checked.config.
 *
 *	random_operations [SEQUENCES [SEED]]
 *
 * Prints one line of JSON; ends with 1 if anything was not as it must be.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static const char *const paths[] = { "/dev/oscope_sender", "/dev/oscope_receiver" };

_Thread_local sigjmp_buf away;
_Thread_local volatile sig_atomic_t touching;

static void on_fault(int number)
{
	if (!touching) {
		signal(number, SIG_DFL);
		return;
	}
	siglongjmp(away, 1);
}

static void on_alarm(int number)
{
	(void)number;
}

static bool is_zero(const unsigned char *page)
{
	for (size_t index = 0; index < PAGE; index++)
		if (page[index])
			return false;
	return true;
}

static void open_end(struct pair *pair, enum side side)
{
	struct end *end = &pair->ends[side];
	void *area;

	end->file = open(paths[side], O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (end->file < 0) {
		perror(paths[side]);
		exit(1);
	}
	if (one_in(pair, 3))
		return;
	area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, end->file, 0);
	if (judged("mmap", area == MAP_FAILED ? -1 : 0))
		return;
	end->area = area;
	if (!is_zero(end->area + below(pair, AREA / PAGE) * PAGE))
		add(&totals->mismatches, 1);
}

static void join(struct pair *pair)
{
	struct oscope_transfer_listen listen = { .size = sizeof(listen), .endpoint = loopback(0) };
	struct oscope_transfer_accept accept = { .size = sizeof(accept), .stall_ms = 4 };
	struct oscope_transfer_connect connect = { .size = sizeof(connect), .stall_ms = 4 };

	if (judged("LISTEN", ioctl(pair->ends[SENDER].file, OSCOPE_TRANSFER_LISTEN, &listen)))
		return;
	connect.endpoint = loopback(listen.endpoint.port);
	if (judged("CONNECT", ioctl(pair->ends[RECEIVER].file, OSCOPE_TRANSFER_CONNECT, &connect)))
		return;
	if (judged("ACCEPT", ioctl(pair->ends[SENDER].file, OSCOPE_TRANSFER_ACCEPT, &accept)) == 0)
		add(&totals->connections, 1);
}

static void close_end(struct end *end, bool mapping_last)
{
	if (end->area && !mapping_last)
		munmap(end->area, AREA);
	close(end->file);
	if (end->area && mapping_last) {
		end->area[AREA / 2] = 1;
		munmap(end->area, AREA);
	}
}

static void in_child(struct pair *pair)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return;
	pair->checked = false;
	pair->random ^= child;
	operate(pair, 12);
	if (!child)
		_exit(0);
	add(&totals->forks, 1);
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR) {
			perror("waitpid");
			exit(1);
		}
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "a child ended with %#x\n", status);
		add(&totals->unexpected, 1);
	}
}

static void *in_thread(void *shared)
{
	struct pair pair = *(struct pair *)shared;

	/* Mappings stay the main thread's. */
	pair.ends[SENDER].area = NULL;
	pair.ends[RECEIVER].area = NULL;
	pair.buffer = malloc(BUFFER);
	if (!pair.buffer)
		return NULL;
	pair.random = ~pair.random;
	operate(&pair, 12);
	for (enum side side = SENDER; side <= RECEIVER; side++)
		if (pair.ends[side].area)
			munmap(pair.ends[side].area, AREA);
	free(pair.buffer);
	return NULL;
}

static void with_thread(struct pair *pair)
{
	pthread_t thread;

	pair->checked = false;
	if (pthread_create(&thread, NULL, in_thread, pair))
		return;
	add(&totals->threads, 1);
	operate(pair, 12);
	pthread_join(thread, NULL);
}

static void run_sequence(uint64_t seed, unsigned char *buffer)
{
	struct pair pair = { .random = seed, .checked = true, .buffer = buffer };
	bool receiver_first = one_in(&pair, 2);

	open_end(&pair, SENDER);
	open_end(&pair, RECEIVER);
	if (!one_in(&pair, 10))
		join(&pair);
	operate(&pair, 8 + below(&pair, 24));
	if (one_in(&pair, 8))
		in_child(&pair);
	else if (one_in(&pair, 8))
		with_thread(&pair);
	close_end(&pair.ends[receiver_first ? RECEIVER : SENDER], one_in(&pair, 2));
	close_end(&pair.ends[receiver_first ? SENDER : RECEIVER], one_in(&pair, 2));
}

static void print_totals(uint64_t seed, uint64_t sequences)
{
	const char *separator = "";

	printf("{\"seed\":%lu,\"sequences\":%lu,\"operations\":%lu,\"connections\":%lu,\"bytes\":%lu,"
	       "\"forks\":%lu,\"threads\":%lu,\"touched\":%lu,\"faults\":%lu,\"errors\":{",
	       seed, sequences, totals->operations, totals->connections, totals->bytes, totals->forks,
	       totals->threads, totals->touched, totals->faults);
	for (int number = 0; number < ERRNOS; number++) {
		if (!totals->errors[number])
			continue;
		printf("%s\"%s\":%lu", separator, strerrorname_np(number), totals->errors[number]);
		separator = ",";
	}
	printf("},\"mismatches\":%lu,\"unexpected\":%lu}\n", totals->mismatches, totals->unexpected);
}

int main(int count, char **words)
{
	uint64_t sequences = count > 1 ? strtoull(words[1], NULL, 10) : 10000;
	uint64_t seed = count > 2 ? strtoull(words[2], NULL, 10) : 1;
	struct sigaction alarm_action = { .sa_handler = on_alarm };
	struct sigaction fault_action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	unsigned char *buffer = malloc(BUFFER);

	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!buffer || totals == MAP_FAILED || !sequences) {
		fprintf(stderr, "usage: random_operations [SEQUENCES [SEED]]\n");
		return 2;
	}
	sigaction(SIGALRM, &alarm_action, NULL);
	sigaction(SIGBUS, &fault_action, NULL);
	sigaction(SIGSEGV, &fault_action, NULL);
	for (uint64_t number = 0; number < sequences; number++) {
		run_sequence(seed + number * 0x100000001b3, buffer);
		if (!(number % 1000))
			fprintf(stderr, "sequence %lu\n", number);
	}
	print_totals(seed, sequences);
	/* Each touch is within a mapping: none may fault for good. */
	return totals->mismatches || totals->unexpected || totals->faults;
}
