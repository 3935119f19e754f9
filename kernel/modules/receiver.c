// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/oscope_receiver: connects, and gives what comes to read() or to the area.
 */
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/uaccess.h>

#include "opener.h"

/*
 * Return what a call moved before it came to `got`: an error, or the end. Only
 * a caller that was told of the end can have checked all: then it ended well.
 */
static ssize_t moved(struct oscope_opener *opener, size_t done, ssize_t got)
{
	if (done)
		return done;
	if (!got)
		opener->ended = true;
	return got;
}

/* Wait for any data, and take what more of it is there, at most `length`. */
static ssize_t receive_user(struct file *file, char __user *to, size_t length)
{
	struct oscope_opener *opener = file->private_data;
	size_t done = 0;
	ssize_t got;

	got = oscope_bounce(opener);
	if (got)
		return got;
	while (done < length) {
		size_t chunk = min_t(size_t, length - done, OSCOPE_BOUNCE);

		/*
		 * What was taken from the connection cannot be put back: ask
		 * before, in the way that changes nothing beyond what comes.
		 */
		chunk -= fault_in_safe_writeable(to + done, chunk);
		if (!chunk)
			return done ? done : -EFAULT;
		oscope_bounce_vector(opener, 0, chunk);
		got = oscope_receive(file, chunk, done ? MSG_DONTWAIT : 0);
		if (got <= 0)
			return moved(opener, done, got);
		if (copy_to_user(to + done, opener->bounce, got)) {
			opener->error = -EIO;
			return -EFAULT;
		}
		done += got;
	}
	return done;
}

static ssize_t receiver_read(struct file *file, char __user *to, size_t length, loff_t *position)
{
	ssize_t got = oscope_enter(file);

	if (got)
		return got;
	got = receive_user(file, to, length);
	oscope_leave(file);
	return got;
}

static long receiver_connect(struct file *file, void __user *argument)
{
	struct oscope_transfer_connect connect;

	if (copy_from_user(&connect, argument, sizeof(connect)))
		return -EFAULT;
	if (connect.size != sizeof(connect) || connect.flags)
		return -EINVAL;
	return oscope_connect(file->private_data, &connect);
}

static long receiver_receive(struct file *file, void __user *argument)
{
	struct oscope_opener *opener = file->private_data;
	struct oscope_transfer_move move;
	size_t done = 0;
	int error;

	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (copy_from_user(&move, argument, sizeof(move)))
		return -EFAULT;
	error = oscope_check_move(&move, OSCOPE_TRANSFER_WHOLE);
	if (error)
		return error;
	while (done < move.length) {
		bool whole = move.flags & OSCOPE_TRANSFER_WHOLE;
		int flags = whole ? MSG_WAITALL : done ? MSG_DONTWAIT : 0;
		ssize_t held = oscope_area_vectors(opener, move.offset + done, move.length - done);
		ssize_t got = held;

		if (held > 0)
			got = oscope_receive(file, held, flags);
		if (got <= 0)
			return moved(opener, done, got);
		done += got;
	}
	return done;
}

static long receiver_ioctl(struct file *file, unsigned int command, unsigned long value)
{
	void __user *argument = (void __user *)value;
	long answer;

	if (command == OSCOPE_TRANSFER_DESCRIPTOR)
		return oscope_descriptor(file, argument);
	answer = oscope_enter(file);
	if (answer)
		return answer;
	switch (command) {
	case OSCOPE_TRANSFER_CONNECT:
		answer = receiver_connect(file, argument);
		break;
	case OSCOPE_TRANSFER_RECEIVE:
		answer = receiver_receive(file, argument);
		break;
	default:
		answer = -ENOTTY;
	}
	oscope_leave(file);
	return answer;
}

static const struct file_operations receiver_operations = {
	.owner = THIS_MODULE,
	.open = oscope_open,
	.release = oscope_release,
	.read = receiver_read,
	.poll = oscope_poll,
	.mmap = oscope_mmap,
	.unlocked_ioctl = receiver_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice receiver = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "oscope_receiver",
	.mode = 0600,
	.fops = &receiver_operations,
};

module_misc_device(receiver);
MODULE_DESCRIPTION("Oscope's receiver: files come in by a TCP connection in the kernel");
MODULE_LICENSE("GPL");
