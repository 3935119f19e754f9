/* Reads of one file, timed from within: `all FILE` prints the seconds of open, read of everything by 1 MiB, close;
 * `random FILE COUNT SEED` prints 4 KiB reads a second at random pages of the open file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, BLOCK = 1 << 20 };

static char buffer[BLOCK] __attribute__((aligned(PAGE)));

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double all(const char *path)
{
	double begin = now();
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (file < 0)
		fail("open");
	while ((got = read(file, buffer, BLOCK)) > 0)
		;
	if (got < 0)
		fail("read");
	if (close(file) != 0)
		fail("close");
	return now() - begin;
}

static double random_pages(const char *path, long count, unsigned long long state)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	double begin;

	if (file < 0 || fstat(file, &status) != 0)
		fail("open");
	begin = now();
	for (long done = 0; done < count; done++) {
		/* Knuth's MMIX constants: cheap, and its upper bits are random enough for places in a file. */
		state = state * 6364136223846793005ULL + 1442695040888963407ULL;
		off_t page = (off_t)((state >> 33) % (unsigned long long)(status.st_size / PAGE));

		if (pread(file, buffer, PAGE, page * PAGE) != PAGE)
			fail("pread");
	}
	begin = now() - begin;
	close(file);
	return (double)count / begin;
}

int main(int count, char **words)
{
	if (count == 3 && strcmp(words[1], "all") == 0)
		printf("%.9f\n", all(words[2]));
	else if (count == 5 && strcmp(words[1], "random") == 0)
		printf("%.3f\n", random_pages(words[2], atol(words[3]), strtoull(words[4], NULL, 10)));
	else
		return 2;
	return 0;
}
