/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * /dev/oscope_sender and /dev/oscope_receiver: a TCP connection in the kernel.
 *
 * An open file holds one connection. The sender listens, the receiver connects
 * to it. Data go by write() and read(), or by SEND and RECEIVE out of and into
 * an area of OSCOPE_TRANSFER_AREA bytes that is mapped with mmap(MAP_SHARED).
 *
 * A connection ends well only if the sender has called FINISH and the receiver
 * has read up to the end (0 bytes): every other end resets it, so that neither
 * side takes a part for the whole.
 *
 * poll() and epoll wait on the socket that the file holds when they are called.
 * Before ACCEPT that is the one that listens, which is readable when somebody
 * has come; before LISTEN or CONNECT there is none. Call poll() again, and
 * epoll_ctl() only, after ACCEPT or CONNECT: what waited before is not woken by
 * the connection.
 */
#ifndef _OSCOPE_TRANSFER_H
#define _OSCOPE_TRANSFER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define OSCOPE_TRANSFER_AREA		(2 << 20)	/* bytes that can be mapped */
#define OSCOPE_TRANSFER_LIMIT_MS	600000		/* longest time limit */
#define OSCOPE_TRANSFER_MEETING_MS	10000		/* where timeout_ms is 0 */
#define OSCOPE_TRANSFER_STALL_MS	30000		/* where stall_ms is 0 */

/* An address of AF_INET (its first 4 bytes count, the others are 0) or AF_INET6. */
struct oscope_transfer_endpoint {
	__u32 family;		/* AF_INET, AF_INET6 */
	__u32 port;		/* in the host's byte order */
	__u32 scope;		/* AF_INET6: index of the interface */
	__u32 reserved;		/* 0 */
	__u8 address[16];	/* in the network's byte order */
};

/*
 * In each structure `size` is its sizeof, and what is not documented is 0;
 * anything else is -EINVAL.
 */

struct oscope_transfer_listen {
	__u64 size;
	__u64 flags;		/* 0 */
	struct oscope_transfer_endpoint endpoint;	/* port 0: answers the one chosen */
};

struct oscope_transfer_accept {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 timeout_ms;	/* for the peer to come */
	__u64 stall_ms;		/* for each later wait without any progress */
	struct oscope_transfer_endpoint peer;	/* 0; answers who came */
};

struct oscope_transfer_connect {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 timeout_ms;	/* for the peer to answer */
	__u64 stall_ms;		/* for each later wait without any progress */
	struct oscope_transfer_endpoint endpoint;
};

/* RECEIVE: wait for all of `length`, or the end, instead of for any data. */
#define OSCOPE_TRANSFER_WHOLE	1

struct oscope_transfer_move {
	__u64 size;
	__u64 flags;		/* RECEIVE: OSCOPE_TRANSFER_WHOLE; SEND: 0 */
	__u64 offset;		/* in the area, bytes */
	__u64 length;		/* offset + length is within the area */
};

struct oscope_transfer_finish {
	__u64 size;
	__u64 flags;		/* 0 */
	__u64 timeout_ms;	/* for the peer to have read all and closed */
	__u64 reserved;		/* 0 */
};

#define OSCOPE_TRANSFER_ALLOCATED	1	/* the page is there */
#define OSCOPE_TRANSFER_MAPPED		2	/* a mapping of the caller has it in its range */
#define OSCOPE_TRANSFER_PTE		4	/* its page table entry could be read */

struct oscope_transfer_descriptor {
	__u64 size;
	__u64 offset;		/* in the area, bytes */
	__u64 flags;		/* 0; answers ALLOCATED, MAPPED, PTE */
	__u64 address;		/* of the byte in the caller's memory, with MAPPED */
	__u64 pfn;		/* this and what follows but pte, with ALLOCATED */
	__u64 pte;		/* with PTE */
	__u64 page_flags;	/* of struct page, bits as in the running kernel */
	__u64 refcount;
	__u64 mapcount;
	__u64 reserved;		/* 0 */
};

/* Of the sender. */
#define OSCOPE_TRANSFER_LISTEN		_IOWR('O', 0x60, struct oscope_transfer_listen)
#define OSCOPE_TRANSFER_ACCEPT		_IOWR('O', 0x61, struct oscope_transfer_accept)
/* Returns the bytes sent: fewer than asked only where an error or a signal ended it. */
#define OSCOPE_TRANSFER_SEND		_IOW('O', 0x62, struct oscope_transfer_move)
/* No more data: waits until the receiver has read all and closed its file. */
#define OSCOPE_TRANSFER_FINISH		_IOW('O', 0x63, struct oscope_transfer_finish)

/* Of the receiver. */
#define OSCOPE_TRANSFER_CONNECT		_IOW('O', 0x64, struct oscope_transfer_connect)
/* Returns the bytes received, 0 at the end. */
#define OSCOPE_TRANSFER_RECEIVE		_IOW('O', 0x65, struct oscope_transfer_move)

/* Of both; needs CAP_SYS_ADMIN, as the frame numbers of /proc/PID/pagemap do. */
#define OSCOPE_TRANSFER_DESCRIPTOR	_IOWR('O', 0x66, struct oscope_transfer_descriptor)

#endif
