// SPDX-License-Identifier: MIT OR Apache-2.0
/* Random numbers that repeat, and the judgement of what a call answers. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "pair.h"

struct totals *totals;

static const int allowed[] = { EAGAIN, EINVAL, EFAULT, EPIPE, ECONNRESET, ENOTCONN, EISCONN, ETIMEDOUT, EINTR,
	EBADF, ENOTTY, EACCES, EADDRINUSE, ECONNREFUSED, EPROTO, EADDRNOTAVAIL, ENETUNREACH, EAFNOSUPPORT,
	ECONNABORTED, ENOMEM, EPERM };

void add(uint64_t *total, uint64_t count)
{
	__atomic_fetch_add(total, count, __ATOMIC_RELAXED);
}

/* splitmix64 */
uint64_t next(struct pair *pair)
{
	uint64_t mixed = pair->random += 0x9e3779b97f4a7c15;

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
	return mixed ^ (mixed >> 31);
}

uint64_t below(struct pair *pair, uint64_t limit)
{
	return next(pair) % limit;
}

bool one_in(struct pair *pair, uint64_t count)
{
	return !below(pair, count);
}

/* Count what a call answered. */
long judged(const char *what, long answer)
{
	add(&totals->operations, 1);
	if (answer >= 0)
		return answer;
	if (errno < ERRNOS)
		add(&totals->errors[errno], 1);
	for (size_t index = 0; index < sizeof(allowed) / sizeof(*allowed); index++)
		if (allowed[index] == errno)
			return -1;
	fprintf(stderr, "%s: unexpected: %s\n", what, strerror(errno));
	add(&totals->unexpected, 1);
	return -1;
}

void must_fail(const char *what, long answer)
{
	if (judged(what, answer) >= 0) {
		fprintf(stderr, "%s: must fail, and did not\n", what);
		add(&totals->unexpected, 1);
	}
}

struct oscope_transfer_endpoint loopback(uint32_t port)
{
	return (struct oscope_transfer_endpoint){
		.family = AF_INET, .port = port, .address = { 127, 0, 0, 1 },
	};
}
