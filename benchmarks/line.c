/* A long line between two network namespaces: line RTT_MS MBIT LOSS_PPM QUEUE_MS.
 *
 * Two TUN devices (Documentation/networking/tuntap.rst), each in a namespace of its own, and a queue for each
 * direction: a packet is lost with the given probability, waits for those before it at the line's rate, and
 * arrives half a round trip later. Prints the descriptors of both namespaces, and carries packets until its
 * standard input ends; namespaces and devices are gone with it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <netinet/in.h>

#define MTU 1500
#define ROOM 65536 /* packets under way in one direction; a power of two */

struct packet { uint64_t due; uint16_t length; unsigned char bytes[MTU]; };
struct way { int from, to; struct packet *ring; uint32_t head, tail; uint64_t free_at; unsigned long carried, lost, full; };

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t seed = 88172645463325252ull;
static uint64_t number(void)
{
	seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
	return seed;
}

static void ask(int s, unsigned long what, struct ifreq *r, const char *text)
{
	if (ioctl(s, what, r) < 0)
		err(1, "%s", text);
}

static int device(int host, int *space)
{
	if (unshare(CLONE_NEWNET) < 0)
		err(1, "unshare");
	*space = open("/proc/self/ns/net", O_RDONLY);
	int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK), s = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq r = { .ifr_name = "line0", .ifr_flags = IFF_TUN | IFF_NO_PI };
	ask(tun, TUNSETIFF, &r, "TUNSETIFF");
	struct sockaddr_in a = { .sin_family = AF_INET };
	a.sin_addr.s_addr = htonl(0x0a630000u + (unsigned)host);
	memcpy(&r.ifr_addr, &a, sizeof a);
	ask(s, SIOCSIFADDR, &r, "address");
	a.sin_addr.s_addr = htonl(0xffffff00u);
	memcpy(&r.ifr_netmask, &a, sizeof a);
	ask(s, SIOCSIFNETMASK, &r, "netmask");
	r.ifr_qlen = 10000;
	ask(s, SIOCSIFTXQLEN, &r, "queue");
	for (int i = 0; i < 2; i++) { /* and the loopback */
		struct ifreq up = { .ifr_flags = IFF_UP | IFF_RUNNING };
		strcpy(up.ifr_name, i ? "lo" : "line0");
		ask(s, SIOCSIFFLAGS, &up, "up");
	}
	close(s);
	return tun;
}

static void take(struct way *w, uint64_t half, double ns_per_byte, uint64_t longest, uint64_t loss)
{
	for (int i = 0; i < 64; i++) {
		struct packet *p = &w->ring[w->tail % ROOM];
		ssize_t length = read(w->from, p->bytes, MTU);
		if (length <= 0)
			return;
		uint64_t t = now(), begin = w->free_at > t ? w->free_at : t;
		if (number() % 1000000 < loss) { w->lost++; continue; }
		if (begin - t > longest || w->tail - w->head >= ROOM - 1) { w->full++; continue; }
		w->free_at = begin + (uint64_t)((double)length * ns_per_byte);
		p->due = w->free_at + half;
		p->length = (uint16_t)length;
		w->tail++;
	}
}

static uint64_t deliver(struct way *w)
{
	uint64_t t = now();
	while (w->head != w->tail && w->ring[w->head % ROOM].due <= t) {
		struct packet *p = &w->ring[w->head++ % ROOM];
		if (write(w->to, p->bytes, p->length) == p->length)
			w->carried++;
	}
	return w->head == w->tail ? UINT64_MAX : w->ring[w->head % ROOM].due;
}

int main(int count, char **word)
{
	if (count != 5)
		errx(2, "usage: line RTT_MS MBIT LOSS_PPM QUEUE_MS");
	uint64_t half = strtoull(word[1], 0, 10) * 500000, loss = strtoull(word[3], 0, 10);
	double ns_per_byte = 8e3 / (double)strtoull(word[2], 0, 10);
	uint64_t longest = strtoull(word[4], 0, 10) * 1000000;
	int spaces[2], ends[2];
	for (int i = 0; i < 2; i++)
		ends[i] = device(i + 1, &spaces[i]);
	struct way ways[2] = { { .from = ends[0], .to = ends[1] }, { .from = ends[1], .to = ends[0] } };
	for (int i = 0; i < 2; i++)
		if (!(ways[i].ring = calloc(ROOM, sizeof(struct packet))))
			err(1, "memory");
	printf("%d %d %d\n", getpid(), spaces[0], spaces[1]);
	fflush(stdout);
	for (;;) {
		uint64_t first = deliver(&ways[0]), second = deliver(&ways[1]), t = now();
		uint64_t next = first < second ? first : second;
		struct timespec wait = { 1, 0 };
		if (next != UINT64_MAX && next < t + 1000000000)
			wait = (struct timespec){ 0, next > t ? (long)(next - t) : 0 };
		struct pollfd fds[3] = { { ends[0], POLLIN, 0 }, { ends[1], POLLIN, 0 }, { 0, POLLIN, 0 } };
		if (ppoll(fds, 3, &wait, 0) < 0)
			err(1, "ppoll");
		if (fds[2].revents) {
			fprintf(stderr, "line: carried %lu %lu, lost %lu %lu, full %lu %lu\n", ways[0].carried,
				ways[1].carried, ways[0].lost, ways[1].lost, ways[0].full, ways[1].full);
			return 0;
		}
		for (int i = 0; i < 2; i++)
			if (fds[i].revents)
				take(&ways[i], half, ns_per_byte, longest, loss);
	}
}
