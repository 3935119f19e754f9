// SPDX-License-Identifier: GPL-2.0-only
/*
 * The TCP connection of an opener. Each wait has a limit and ends on a signal.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/jiffies.h>
#include <linux/net.h>
#include <linux/tcp.h>
#include <net/sock.h>

#include "opener.h"

#define BACKLOG 1

/* Turn a limit of user space into jiffies, `usual_ms` where it is 0. */
static int limit_jiffies(u64 limit_ms, unsigned int usual_ms, long *limit)
{
	if (limit_ms > OSCOPE_TRANSFER_LIMIT_MS)
		return -EINVAL;
	*limit = msecs_to_jiffies(limit_ms ? limit_ms : usual_ms);
	return 0;
}

static void set_limits(struct socket *socket, long limit)
{
	WRITE_ONCE(socket->sk->sk_rcvtimeo, limit);
	WRITE_ONCE(socket->sk->sk_sndtimeo, limit);
}

/* Return the length of the address, or -EINVAL. */
static int to_address(const struct oscope_transfer_endpoint *endpoint,
		      struct sockaddr_storage *address)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;

	memset(address, 0, sizeof(*address));
	if (endpoint->port > U16_MAX || endpoint->reserved)
		return -EINVAL;
	switch (endpoint->family) {
	case AF_INET:
		if (endpoint->scope || memchr_inv(endpoint->address + sizeof(v4->sin_addr), 0,
						  sizeof(endpoint->address) - sizeof(v4->sin_addr)))
			return -EINVAL;
		v4->sin_family = AF_INET;
		v4->sin_port = htons(endpoint->port);
		memcpy(&v4->sin_addr, endpoint->address, sizeof(v4->sin_addr));
		return sizeof(*v4);
	case AF_INET6:
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(endpoint->port);
		v6->sin6_scope_id = endpoint->scope;
		memcpy(&v6->sin6_addr, endpoint->address, sizeof(v6->sin6_addr));
		return sizeof(*v6);
	default:
		return -EINVAL;
	}
}

static void to_endpoint(const struct sockaddr_storage *address,
			struct oscope_transfer_endpoint *endpoint)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->family = address->ss_family;
	if (address->ss_family == AF_INET6) {
		endpoint->port = ntohs(v6->sin6_port);
		endpoint->scope = v6->sin6_scope_id;
		memcpy(endpoint->address, &v6->sin6_addr, sizeof(v6->sin6_addr));
	} else {
		endpoint->port = ntohs(v4->sin_port);
		memcpy(endpoint->address, &v4->sin_addr, sizeof(v4->sin_addr));
	}
}

/*
 * A socket as the opener's own socket(2) would make it, in the opener's
 * network. One of sock_create_kern() would not hold that network: its timers,
 * which send what is left after the file was closed, would outlive it.
 */
static int make_socket(struct oscope_opener *opener, u32 family, struct socket **socket)
{
	return __sock_create(opener->net, family, SOCK_STREAM, IPPROTO_TCP, socket, 0);
}

int oscope_listen(struct oscope_opener *opener, struct oscope_transfer_endpoint *endpoint)
{
	struct sockaddr_storage address;
	struct socket *socket;
	int length = to_address(endpoint, &address);
	int error;

	if (length < 0)
		return length;
	if (opener->listener)
		return -EISCONN;
	error = make_socket(opener, endpoint->family, &socket);
	if (error)
		return error;
	/* Connections of before that are still being forgotten do not hold the port. */
	sock_set_reuseaddr(socket->sk);
	error = kernel_bind(socket, (struct sockaddr *)&address, length);
	if (!error)
		error = kernel_listen(socket, BACKLOG);
	if (!error) {
		error = kernel_getsockname(socket, (struct sockaddr *)&address);
		if (error > 0)
			error = 0;
	}
	if (error) {
		sock_release(socket);
		return error;
	}
	to_endpoint(&address, endpoint);
	/* poll() reads it without the lock. */
	smp_store_release(&opener->listener, socket);
	return 0;
}

static void hold_connection(struct oscope_opener *opener, struct socket *socket, long stall)
{
	set_limits(socket, stall);
	tcp_sock_set_nodelay(socket->sk);
	/* poll() reads it without the lock. */
	smp_store_release(&opener->connection, socket);
}

int oscope_accept(struct file *file, struct oscope_transfer_accept *accept)
{
	struct oscope_opener *opener = file->private_data;
	int flags = file->f_flags & O_NONBLOCK;
	struct sockaddr_storage address;
	struct socket *socket;
	long limit, stall;
	int error;

	if (memchr_inv(&accept->peer, 0, sizeof(accept->peer)) ||
	    limit_jiffies(accept->timeout_ms, OSCOPE_TRANSFER_MEETING_MS, &limit) ||
	    limit_jiffies(accept->stall_ms, OSCOPE_TRANSFER_STALL_MS, &stall))
		return -EINVAL;
	if (opener->connection)
		return -EISCONN;
	if (!opener->listener)
		return -ENOTCONN;
	set_limits(opener->listener, limit);
	error = kernel_accept(opener->listener, &socket, flags);
	if (error)
		return error == -EAGAIN && !flags ? -ETIMEDOUT : error;
	error = kernel_getpeername(socket, (struct sockaddr *)&address);
	if (error < 0) {
		/* Gone already; the next may stay. */
		sock_release(socket);
		return error == -ENOTCONN ? -ECONNABORTED : error;
	}
	to_endpoint(&address, &accept->peer);
	hold_connection(opener, socket, stall);
	/* The port is free for others, who are not left waiting in the queue. */
	kernel_sock_shutdown(opener->listener, SHUT_RDWR);
	return 0;
}

/* Tell whether TCP met itself: nobody listens on a port that it chose itself. */
static bool met_itself(struct socket *socket)
{
	struct sockaddr_storage here = {}, there = {};
	int length = kernel_getsockname(socket, (struct sockaddr *)&here);

	return length > 0 &&
	       kernel_getpeername(socket, (struct sockaddr *)&there) == length &&
	       !memcmp(&here, &there, length);
}

/* Wait for the peer whatever O_NONBLOCK says: a connection half made is not kept. */
int oscope_connect(struct oscope_opener *opener, const struct oscope_transfer_connect *connect)
{
	struct sockaddr_storage address;
	struct socket *socket;
	long limit, stall;
	int length, error;

	length = to_address(&connect->endpoint, &address);
	if (length < 0)
		return length;
	if (limit_jiffies(connect->timeout_ms, OSCOPE_TRANSFER_MEETING_MS, &limit) ||
	    limit_jiffies(connect->stall_ms, OSCOPE_TRANSFER_STALL_MS, &stall))
		return -EINVAL;
	if (opener->connection)
		return -EISCONN;
	error = make_socket(opener, connect->endpoint.family, &socket);
	if (error)
		return error;
	set_limits(socket, limit);
	error = kernel_connect(socket, (struct sockaddr *)&address, length, 0);
	if (!error && met_itself(socket)) {
		/* Whoever is to listen there finds the port free at once. */
		sock_no_linger(socket->sk);
		error = -ECONNREFUSED;
	}
	if (error) {
		sock_release(socket);
		return error == -EINPROGRESS ? -ETIMEDOUT : error;
	}
	hold_connection(opener, socket, stall);
	return 0;
}

/* Return why nothing can be moved, or 0. */
static int check_connection(const struct oscope_opener *opener)
{
	if (opener->error)
		return opener->error;
	return opener->connection ? 0 : -ENOTCONN;
}

/*
 * Keep an error that does not pass, and return what the caller is told. A call
 * that moved something before tells of no error; the socket, asked again, would
 * then take a connection that was reset for one that came to its end.
 */
static int judge(struct oscope_opener *opener, int moved, bool waits)
{
	switch (moved) {
	case -EAGAIN:
		return waits ? -ETIMEDOUT : -EAGAIN;
	case -EINTR:
	case -ERESTARTSYS:
	case -ENOMEM:
	case -ENOBUFS:
		return moved;
	}
	if (moved < 0)
		opener->error = moved;
	return moved;
}

/*
 * Send what the opener's vectors hold, or its beginning. `more` tells
 * TCP that the rest of a message comes at once.
 */
ssize_t oscope_send(struct file *file, size_t length, bool more)
{
	struct oscope_opener *opener = file->private_data;
	bool nonblocking = file->f_flags & O_NONBLOCK;
	int flags = MSG_NOSIGNAL | (nonblocking ? MSG_DONTWAIT : 0) | (more ? MSG_MORE : 0);
	struct msghdr message = { .msg_flags = flags };
	int sent = check_connection(opener);

	if (sent)
		return sent;
	if (opener->finished)
		return -EPIPE;
	sent = kernel_sendmsg(opener->connection, &message, opener->vectors, opener->used, length);
	return judge(opener, sent, !nonblocking);
}

/* Receive into the opener's vectors, with flags as of recvmsg(2); 0 at the end. */
ssize_t oscope_receive(struct file *file, size_t length, int flags)
{
	struct oscope_opener *opener = file->private_data;
	bool nonblocking = file->f_flags & O_NONBLOCK;
	struct msghdr message = {};
	int received = check_connection(opener);

	if (received)
		return received;
	if (nonblocking)
		flags |= MSG_DONTWAIT;
	received = kernel_recvmsg(opener->connection, &message, opener->vectors, opener->used,
				  length, flags);
	return judge(opener, received, !(flags & MSG_DONTWAIT));
}

int oscope_finish(struct file *file, u64 timeout_ms)
{
	struct oscope_opener *opener = file->private_data;
	bool nonblocking = file->f_flags & O_NONBLOCK;
	struct msghdr message = {};
	struct socket *socket;
	long limit, stall;
	struct kvec vector;
	u8 byte;
	int got;

	got = check_connection(opener);
	if (got)
		return got;
	if (limit_jiffies(timeout_ms, OSCOPE_TRANSFER_STALL_MS, &limit))
		return -EINVAL;
	socket = opener->connection;
	opener->finished = true;
	got = kernel_sock_shutdown(socket, SHUT_WR);
	/* The peer has reset it meanwhile, which is told below. */
	if (got && got != -ENOTCONN)
		return got;
	stall = socket->sk->sk_rcvtimeo;
	set_limits(socket, limit);
	vector.iov_base = &byte;
	vector.iov_len = sizeof(byte);
	got = kernel_recvmsg(socket, &message, &vector, 1, sizeof(byte),
			     nonblocking ? MSG_DONTWAIT : 0);
	set_limits(socket, stall);
	/* A receiver of this kind sends nothing. */
	if (got > 0)
		got = -EPROTO;
	if (!got)
		opener->ended = true;
	return judge(opener, got, !nonblocking);
}

void oscope_close(struct oscope_opener *opener)
{
	if (opener->connection) {
		/* No peer shall take a part for the whole: reset what did not end well. */
		if (!opener->ended)
			sock_no_linger(opener->connection->sk);
		sock_release(opener->connection);
	}
	if (opener->listener)
		sock_release(opener->listener);
}
