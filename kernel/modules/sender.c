// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/oscope_sender: listens, and sends what is written or lies in the area.
 */
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "opener.h"

/* Copy to the bounce buffer and send it from there; a short send is gone on with. */
static ssize_t send_user(struct file *file, const char __user *from, size_t length)
{
	struct oscope_opener *opener = file->private_data;
	size_t done = 0;
	ssize_t sent;

	sent = oscope_bounce(opener);
	if (sent)
		return sent;
	while (done < length) {
		size_t chunk = min_t(size_t, length - done, OSCOPE_BOUNCE);
		size_t ready = 0;

		if (copy_from_user(opener->bounce, from + done, chunk))
			return done ? done : -EFAULT;
		while (ready < chunk) {
			oscope_bounce_vector(opener, ready, chunk - ready);
			sent = oscope_send(file, chunk - ready, done + chunk < length);
			if (sent <= 0)
				return done + ready ? done + ready : sent;
			ready += sent;
		}
		done += chunk;
	}
	return done;
}

static ssize_t sender_write(struct file *file, const char __user *from, size_t length,
			    loff_t *position)
{
	ssize_t sent = oscope_enter(file);

	if (sent)
		return sent;
	sent = send_user(file, from, length);
	oscope_leave(file);
	return sent;
}

static long sender_listen(struct file *file, void __user *argument)
{
	struct oscope_transfer_listen listen;
	int error;

	if (copy_from_user(&listen, argument, sizeof(listen)))
		return -EFAULT;
	if (listen.size != sizeof(listen) || listen.flags)
		return -EINVAL;
	error = oscope_listen(file->private_data, &listen.endpoint);
	if (error)
		return error;
	return copy_to_user(argument, &listen, sizeof(listen)) ? -EFAULT : 0;
}

static long sender_accept(struct file *file, void __user *argument)
{
	struct oscope_transfer_accept accept;
	int error;

	if (copy_from_user(&accept, argument, sizeof(accept)))
		return -EFAULT;
	if (accept.size != sizeof(accept) || accept.flags)
		return -EINVAL;
	error = oscope_accept(file, &accept);
	if (error)
		return error;
	return copy_to_user(argument, &accept, sizeof(accept)) ? -EFAULT : 0;
}

static long sender_send(struct file *file, void __user *argument)
{
	struct oscope_opener *opener = file->private_data;
	struct oscope_transfer_move move;
	size_t done = 0;
	int error;

	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (copy_from_user(&move, argument, sizeof(move)))
		return -EFAULT;
	error = oscope_check_move(&move, 0);
	if (error)
		return error;
	while (done < move.length) {
		size_t left = move.length - done;
		ssize_t held = oscope_area_vectors(opener, move.offset + done, left);
		ssize_t sent = held;

		if (held > 0)
			sent = oscope_send(file, held, held < left);
		if (sent <= 0)
			return done ? done : sent;
		done += sent;
	}
	return done;
}

static long sender_finish(struct file *file, void __user *argument)
{
	struct oscope_transfer_finish finish;

	if (copy_from_user(&finish, argument, sizeof(finish)))
		return -EFAULT;
	if (finish.size != sizeof(finish) || finish.flags || finish.reserved)
		return -EINVAL;
	return oscope_finish(file, finish.timeout_ms);
}

static long sender_ioctl(struct file *file, unsigned int command, unsigned long value)
{
	void __user *argument = (void __user *)value;
	long answer;

	if (command == OSCOPE_TRANSFER_DESCRIPTOR)
		return oscope_descriptor(file, argument);
	answer = oscope_enter(file);
	if (answer)
		return answer;
	switch (command) {
	case OSCOPE_TRANSFER_LISTEN:
		answer = sender_listen(file, argument);
		break;
	case OSCOPE_TRANSFER_ACCEPT:
		answer = sender_accept(file, argument);
		break;
	case OSCOPE_TRANSFER_SEND:
		answer = sender_send(file, argument);
		break;
	case OSCOPE_TRANSFER_FINISH:
		answer = sender_finish(file, argument);
		break;
	default:
		answer = -ENOTTY;
	}
	oscope_leave(file);
	return answer;
}

static const struct file_operations sender_operations = {
	.owner = THIS_MODULE,
	.open = oscope_open,
	.release = oscope_release,
	.write = sender_write,
	.poll = oscope_poll,
	.mmap = oscope_mmap,
	.unlocked_ioctl = sender_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice sender = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "oscope_sender",
	.mode = 0600,
	.fops = &sender_operations,
};

module_misc_device(sender);
MODULE_DESCRIPTION("Oscope's sender: files go out by a TCP connection in the kernel");
MODULE_LICENSE("GPL");
