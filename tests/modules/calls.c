// SPDX-License-Identifier: MIT OR Apache-2.0
/* The calls that random sequences are made of, right ones and wrong ones. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pair.h"

/* The stream's byte at this position. */
static unsigned char pattern(uint64_t position)
{
	return (position * 0x9e3779b97f4a7c15) >> 56;
}

static void fill(unsigned char *to, uint64_t position, size_t length)
{
	for (size_t index = 0; index < length; index++)
		to[index] = pattern(position + index);
}

static void compare(const unsigned char *got, uint64_t position, size_t length)
{
	for (size_t index = 0; index < length; index++) {
		if (got[index] != pattern(position + index)) {
			add(&totals->mismatches, 1);
			return;
		}
	}
}

/* A call must not change what it does not tell of. */
#define UNTOUCHED 0xff

static void compare_untouched(const unsigned char *rest, size_t length)
{
	if (length && (*rest != UNTOUCHED || memcmp(rest, rest + 1, length - 1)))
		add(&totals->mismatches, 1);
}

static uint64_t length_of(struct pair *pair, uint64_t limit)
{
	switch (below(pair, 8)) {
	case 0:
	case 1:
	case 2:
		return below(pair, 600);
	case 3:
	case 4:
	case 5:
		return below(pair, 6) * PAGE + below(pair, 3);
	case 6:
		return below(pair, limit / 8);
	default:
		return below(pair, limit + 1);
	}
}

static void write_stream(struct pair *pair)
{
	struct end *end = &pair->ends[SENDER];
	size_t length = length_of(pair, BUFFER);
	bool bad = one_in(pair, 12);
	long sent;

	fill(pair->buffer, end->moved, length);
	sent = judged("write", write(end->file, bad ? (void *)8 : pair->buffer, length));
	if (sent > 0)
		end->moved += sent;
}

/* The receiver was told of the end. */
static void must_be_all(struct pair *pair)
{
	if (pair->checked && pair->ends[RECEIVER].moved != pair->ends[SENDER].moved)
		add(&totals->mismatches, 1);
}

static void read_stream(struct pair *pair)
{
	struct end *end = &pair->ends[RECEIVER];
	size_t length = length_of(pair, BUFFER);
	/* Into the device's own pages: faults come while the call is under way. */
	bool own = end->area && one_in(pair, 4);
	void *to = one_in(pair, 12) ? (void *)8 : own ? end->area : pair->buffer;
	long got;

	memset(pair->buffer, UNTOUCHED, length);
	got = judged("read", read(end->file, to, length));
	if (to == pair->buffer)
		compare_untouched(pair->buffer + (got > 0 ? got : 0), length - (got > 0 ? got : 0));
	if (!got && length)
		must_be_all(pair);
	if (got <= 0)
		return;
	add(&totals->bytes, got);
	if (pair->checked)
		compare(to, end->moved, got);
	end->moved += got;
}

static struct oscope_transfer_move some_move(struct pair *pair, uint64_t flags)
{
	struct oscope_transfer_move move = { .size = sizeof(move), .flags = flags };

	move.offset = one_in(pair, 2) ? 0 : below(pair, AREA);
	move.length = length_of(pair, one_in(pair, 4) ? AREA : BUFFER);
	if (move.length > AREA - move.offset)
		move.length = AREA - move.offset;
	return move;
}

static void send_area(struct pair *pair)
{
	struct end *end = &pair->ends[SENDER];
	struct oscope_transfer_move move = some_move(pair, 0);
	long sent;

	if (pair->checked && !end->area)
		return;
	if (pair->checked)
		fill(end->area + move.offset, end->moved, move.length);
	sent = judged("SEND", ioctl(end->file, OSCOPE_TRANSFER_SEND, &move));
	if (sent > 0)
		end->moved += sent;
}

static void receive_area(struct pair *pair)
{
	struct end *end = &pair->ends[RECEIVER];
	struct oscope_transfer_move move = some_move(pair, below(pair, 2));
	long got = judged("RECEIVE", ioctl(end->file, OSCOPE_TRANSFER_RECEIVE, &move));

	if (!got && move.length)
		must_be_all(pair);
	if (got <= 0)
		return;
	add(&totals->bytes, got);
	if (pair->checked && end->area)
		compare(end->area + move.offset, end->moved, got);
	end->moved += got;
}

static void map(struct pair *pair)
{
	struct end *end = &pair->ends[below(pair, 2)];
	void *area;

	if (end->area)
		return;
	area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, end->file, 0);
	if (judged("mmap", area == MAP_FAILED ? -1 : 0) == 0)
		end->area = area;
}

static void unmap(struct pair *pair)
{
	struct end *end = &pair->ends[below(pair, 2)];

	if (!end->area)
		return;
	judged("munmap", munmap(end->area, AREA));
	end->area = NULL;
}

/* Pages taken away and come again, a second mapping of a part, and one that another holds. */
static void remap(struct pair *pair)
{
	struct end *end = &pair->ends[below(pair, 2)];
	size_t offset = below(pair, AREA / PAGE) * PAGE;
	void *part;

	if (end->area && one_in(pair, 2))
		judged("madvise", madvise(end->area + offset, AREA - offset, MADV_DONTNEED));
	part = mmap(NULL, AREA - offset, PROT_READ, MAP_SHARED, end->file, offset);
	if (judged("mmap", part == MAP_FAILED ? -1 : 0))
		return;
	(void)*(volatile unsigned char *)part;
	if (end->area && memcmp(part, end->area + offset, PAGE))
		add(&totals->mismatches, pair->checked);
	judged("munmap", munmap(part, AREA - offset));
}

static void bad_mapping(struct pair *pair)
{
	struct end *end = &pair->ends[below(pair, 2)];
	int file = end->file;

	switch (below(pair, 6)) {
	case 0:
		must_fail("mmap too long", mmap(NULL, AREA + PAGE, PROT_READ, MAP_SHARED, file, 0) ==
			  MAP_FAILED ? -1 : 0);
		break;
	case 1:
		must_fail("mmap beyond", mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file,
			  AREA + below(pair, 1 << 20) * PAGE) == MAP_FAILED ? -1 : 0);
		break;
	case 2:
		must_fail("mmap private", mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) ==
			  MAP_FAILED ? -1 : 0);
		break;
	case 3:
		must_fail("mmap executable", mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0) ==
			  MAP_FAILED ? -1 : 0);
		break;
	case 4:
		if (end->area)
			must_fail("mprotect executable", mprotect(end->area, PAGE, PROT_READ | PROT_EXEC));
		break;
	default:
		if (end->area)
			must_fail("mremap longer", mremap(end->area, AREA, AREA + PAGE, MREMAP_MAYMOVE) ==
				  MAP_FAILED ? -1 : 0);
	}
}

/* Read, or write where that disturbs nobody, a byte in or near the area. */
static void touch(struct pair *pair)
{
	struct end *end = &pair->ends[below(pair, 2)];
	volatile unsigned char *place;

	if (!end->area)
		return;
	place = end->area + below(pair, AREA);
	add(&totals->operations, 1);
	add(&totals->touched, 1);
	touching = 1;
	if (sigsetjmp(away, 1))
		add(&totals->faults, 1);
	else if (one_in(pair, 2))
		(void)*place;
	else
		*place = 1;
	touching = 0;
}

static void describe(struct pair *pair)
{
	struct end *end = &pair->ends[below(pair, 2)];
	struct oscope_transfer_descriptor descriptor = {
		.size = sizeof(descriptor), .offset = below(pair, AREA),
	};
	uint64_t offset = descriptor.offset;

	if (judged("DESCRIPTOR", ioctl(end->file, OSCOPE_TRANSFER_DESCRIPTOR, &descriptor)))
		return;
	if (pair->checked && !!(descriptor.flags & OSCOPE_TRANSFER_MAPPED) != !!end->area)
		add(&totals->unexpected, 1);
	if (pair->checked && end->area && descriptor.address != (uintptr_t)end->area + offset)
		add(&totals->unexpected, 1);
	if ((descriptor.flags & OSCOPE_TRANSFER_PTE) &&
	    (descriptor.pte & 0xffffffffff000) >> 12 != descriptor.pfn)
		add(&totals->unexpected, 1);
}

static void finish(struct pair *pair)
{
	struct oscope_transfer_finish finish = { .size = sizeof(finish), .timeout_ms = 1 };

	if (one_in(pair, 6))
		judged("FINISH", ioctl(pair->ends[SENDER].file, OSCOPE_TRANSFER_FINISH, &finish));
}

static void wait_for(struct pair *pair)
{
	struct pollfd files[] = {
		{ .fd = pair->ends[SENDER].file, .events = POLLOUT | POLLIN },
		{ .fd = pair->ends[RECEIVER].file, .events = POLLIN | POLLRDHUP },
	};

	judged("poll", poll(files, 2, below(pair, 3)));
}

static void meet_again(struct pair *pair)
{
	struct oscope_transfer_listen listen = { .size = sizeof(listen), .endpoint = loopback(0) };
	struct oscope_transfer_accept accept = { .size = sizeof(accept), .timeout_ms = 1, .stall_ms = 8 };
	struct oscope_transfer_connect connect = {
		.size = sizeof(connect), .timeout_ms = 8, .stall_ms = 8, .endpoint = loopback(1),
	};

	switch (below(pair, 3)) {
	case 0:
		judged("LISTEN", ioctl(pair->ends[SENDER].file, OSCOPE_TRANSFER_LISTEN, &listen));
		break;
	case 1:
		judged("ACCEPT", ioctl(pair->ends[SENDER].file, OSCOPE_TRANSFER_ACCEPT, &accept));
		break;
	default:
		must_fail("CONNECT", ioctl(pair->ends[RECEIVER].file, OSCOPE_TRANSFER_CONNECT, &connect));
	}
}

/* Any command with a structure of noise, whose size and flags are sometimes right. */
static void bad_command(struct pair *pair)
{
	static const unsigned long commands[] = { OSCOPE_TRANSFER_LISTEN, OSCOPE_TRANSFER_ACCEPT,
		OSCOPE_TRANSFER_SEND, OSCOPE_TRANSFER_FINISH, OSCOPE_TRANSFER_CONNECT,
		OSCOPE_TRANSFER_RECEIVE, OSCOPE_TRANSFER_DESCRIPTOR };
	int file = pair->ends[below(pair, 2)].file;
	unsigned long command = commands[below(pair, 7)];
	uint64_t words[16];

	for (size_t index = 0; index < 16; index++)
		words[index] = one_in(pair, 2) ? next(pair) : below(pair, 3);
	words[0] = one_in(pair, 4) ? next(pair) : _IOC_SIZE(command);
	if (one_in(pair, 4)) {
		must_fail("bad address", ioctl(file, command, one_in(pair, 2) ? 8 : UINT64_MAX - 8));
	} else if (one_in(pair, 4)) {
		must_fail("no such command", ioctl(file, command ^ (256 << below(pair, 16)), words));
	} else if (command == OSCOPE_TRANSFER_SEND || command == OSCOPE_TRANSFER_RECEIVE) {
		/* Noise must not move a byte: the stream would no longer be known. */
		words[1] |= 4;
		must_fail("noise", ioctl(file, command, words));
	} else if (command == OSCOPE_TRANSFER_DESCRIPTOR) {
		words[2] |= 8;
		must_fail("noise", ioctl(file, command, words));
	} else {
		words[1] |= 2;
		must_fail("noise", ioctl(file, command, words));
	}
}

/* Pages held by a pipe, which must outlive the mapping and the file. */
static void pin(struct pair *pair)
{
	struct end *end = &pair->ends[below(pair, 2)];
	struct iovec vector = { .iov_len = PAGE };
	unsigned char page[PAGE];
	int pipes[2];

	if (!end->area || pipe2(pipes, O_NONBLOCK | O_CLOEXEC))
		return;
	vector.iov_base = end->area + below(pair, AREA / PAGE) * PAGE;
	judged("vmsplice", vmsplice(pipes[1], &vector, 1, 0));
	if (one_in(pair, 2)) {
		munmap(end->area, AREA);
		end->area = NULL;
	}
	judged("read of the pipe", read(pipes[0], page, sizeof(page)));
	close(pipes[0]);
	close(pipes[1]);
}

static void toggle_waiting(struct pair *pair)
{
	int file = pair->ends[below(pair, 2)].file;
	struct itimerval soon = { .it_value = { .tv_usec = 200 + below(pair, 3000) } };

	judged("fcntl", fcntl(file, F_SETFL, one_in(pair, 3) ? 0 : O_NONBLOCK));
	/* A signal amid the waits to come. */
	if (one_in(pair, 4))
		setitimer(ITIMER_REAL, &soon, NULL);
}

static void (*const operations[])(struct pair *) = { write_stream, write_stream, write_stream, read_stream,
	read_stream, read_stream, send_area, send_area, receive_area, receive_area, map, map, unmap, remap,
	bad_mapping, touch, touch, touch, describe, finish, wait_for, meet_again, bad_command, bad_command, pin,
	toggle_waiting };

void operate(struct pair *pair, size_t count)
{
	for (size_t index = 0; index < count; index++)
		operations[below(pair, sizeof(operations) / sizeof(*operations))](pair);
}
