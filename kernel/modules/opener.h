/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an open file of either device holds, and what both devices do with it.
 */
#ifndef _OSCOPE_OPENER_H
#define _OSCOPE_OPENER_H

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/uio.h>
#include <net/net_namespace.h>

#include "oscope_transfer.h"

#define OSCOPE_AREA_PAGES	(OSCOPE_TRANSFER_AREA / PAGE_SIZE)
#define OSCOPE_BOUNCE		SZ_64K
#define OSCOPE_VECTORS		64

/**
 * struct oscope_opener - an open file
 * @lock: see below
 * @net: the network of who opened the file
 * @listener: the sender's, once it listens; stays until the file is released
 * @connection: once there is one; stays until the file is released
 * @ended: each side knows that the other has all: the connection ends well
 * @finished: the sender has said that nothing more comes
 * @error: why nothing can be moved any more, or 0; the socket forgets it once told
 * @bounce: OSCOPE_BOUNCE bytes between read() or write() and the connection
 * @vectors: what is sent, or received into, at a time
 * @used: vectors that hold something
 * @pages: the area's, each from its first use until the file is released
 *
 * @listener, @connection and each of @pages change once, from NULL, so that
 * who does not hold @lock sees either nothing or what stays.
 */
struct oscope_opener {
	struct mutex lock; /* held by each call but poll(), mmap(), DESCRIPTOR and faults */
	struct net *net;
	struct socket *listener;
	struct socket *connection;
	bool ended;
	bool finished;
	int error;
	void *bounce;
	struct kvec vectors[OSCOPE_VECTORS];
	size_t used;
	struct page *pages[OSCOPE_AREA_PAGES];
};

/* opener.c */
int oscope_open(struct inode *inode, struct file *file);
int oscope_release(struct inode *inode, struct file *file);
__poll_t oscope_poll(struct file *file, poll_table *table);
int oscope_enter(struct file *file);
void oscope_leave(struct file *file);
int oscope_bounce(struct oscope_opener *opener);
void oscope_bounce_vector(struct oscope_opener *opener, size_t offset, size_t length);
int oscope_check_move(const struct oscope_transfer_move *move, u64 flags);

/* area.c */
int oscope_mmap(struct file *file, struct vm_area_struct *vma);
void oscope_free_area(struct oscope_opener *opener);
ssize_t oscope_area_vectors(struct oscope_opener *opener, u64 offset, size_t length);
long oscope_descriptor(struct file *file, void __user *argument);

/* connection.c */
int oscope_listen(struct oscope_opener *opener, struct oscope_transfer_endpoint *endpoint);
int oscope_accept(struct file *file, struct oscope_transfer_accept *accept);
int oscope_connect(struct oscope_opener *opener, const struct oscope_transfer_connect *connect);
ssize_t oscope_send(struct file *file, size_t length, bool more);
ssize_t oscope_receive(struct file *file, size_t length, int flags);
int oscope_finish(struct file *file, u64 timeout_ms);
void oscope_close(struct oscope_opener *opener);

#endif
