// SPDX-License-Identifier: GPL-2.0-only
/*
 * Opening, closing and waiting: the same for both devices.
 */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/nsproxy.h>

#include "opener.h"

int oscope_open(struct inode *inode, struct file *file)
{
	struct oscope_opener *opener;

	opener = kvzalloc(sizeof(*opener), GFP_KERNEL_ACCOUNT);
	if (!opener)
		return -ENOMEM;
	mutex_init(&opener->lock);
	opener->net = get_net(current->nsproxy->net_ns);
	file->private_data = opener;
	return stream_open(inode, file);
}

/* Mappings and calls under way hold the file: nobody else is here. */
int oscope_release(struct inode *inode, struct file *file)
{
	struct oscope_opener *opener = file->private_data;

	oscope_close(opener);
	oscope_free_area(opener);
	kvfree(opener->bounce);
	put_net(opener->net);
	mutex_destroy(&opener->lock);
	kvfree(opener);
	return 0;
}

/* It waits on the socket that is there: who polled before ACCEPT is not woken by the connection. */
__poll_t oscope_poll(struct file *file, poll_table *table)
{
	struct oscope_opener *opener = file->private_data;
	struct socket *socket;

	/* Pairs with hold_connection(): a pointer that is seen is to a whole socket. */
	socket = smp_load_acquire(&opener->connection);
	if (!socket) /* pairs with oscope_listen() */
		socket = smp_load_acquire(&opener->listener);
	/* As of a TCP socket without a connection. */
	if (!socket)
		return EPOLLOUT | EPOLLHUP;
	return socket->ops->poll(file, socket, table);
}

/* Take the opener's lock. A call that must not wait does not wait for another call either. */
int oscope_enter(struct file *file)
{
	struct oscope_opener *opener = file->private_data;

	if (file->f_flags & O_NONBLOCK)
		return mutex_trylock(&opener->lock) ? 0 : -EAGAIN;
	return mutex_lock_interruptible(&opener->lock) ? -ERESTARTSYS : 0;
}

void oscope_leave(struct file *file)
{
	struct oscope_opener *opener = file->private_data;

	mutex_unlock(&opener->lock);
}

/* Have the bounce buffer there. */
int oscope_bounce(struct oscope_opener *opener)
{
	if (!opener->bounce)
		opener->bounce = kvmalloc(OSCOPE_BOUNCE, GFP_KERNEL_ACCOUNT);
	return opener->bounce ? 0 : -ENOMEM;
}

/* Lay one vector over a part of the bounce buffer. */
void oscope_bounce_vector(struct oscope_opener *opener, size_t offset, size_t length)
{
	opener->vectors[0].iov_base = opener->bounce + offset;
	opener->vectors[0].iov_len = length;
	opener->used = 1;
}

/* Is it of this size, with no other flags, and within the area? */
int oscope_check_move(const struct oscope_transfer_move *move, u64 flags)
{
	if (move->size != sizeof(*move) || move->flags & ~flags)
		return -EINVAL;
	if (move->length > OSCOPE_TRANSFER_AREA ||
	    move->offset > OSCOPE_TRANSFER_AREA - move->length)
		return -EINVAL;
	return 0;
}
