/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the random sequences and the calls that they are made of share. */
#ifndef PAIR_H
#define PAIR_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oscope_transfer.h"

#define AREA OSCOPE_TRANSFER_AREA
#define PAGE 4096
#define BUFFER (192 << 10)
#define ERRNOS 134

enum side { SENDER, RECEIVER };

struct end {
	int file;
	unsigned char *area; /* NULL if it is not mapped */
	uint64_t moved;
};

/* Both devices, open, and what the caller knows of them. */
struct pair {
	struct end ends[2];
	uint64_t random;
	bool checked; /* only one caller: the stream is known */
	unsigned char *buffer;
};

/* Shared with the children that fork. */
struct totals {
	uint64_t operations, bytes, connections, forks, threads, touched, faults, mismatches, unexpected;
	uint64_t errors[ERRNOS];
};

extern struct totals *totals;

/* Where a touch of memory that is not there goes on. */
extern _Thread_local sigjmp_buf away;
extern _Thread_local volatile sig_atomic_t touching;

void add(uint64_t *total, uint64_t count);
uint64_t below(struct pair *pair, uint64_t limit);
uint64_t next(struct pair *pair);
bool one_in(struct pair *pair, uint64_t count);
long judged(const char *what, long answer);
void must_fail(const char *what, long answer);
struct oscope_transfer_endpoint loopback(uint32_t port);

/* calls.c: that many calls, drawn at random. */
void operate(struct pair *pair, size_t count);

#endif
