// SPDX-License-Identifier: GPL-2.0
/*
 * Verified load: storm DIRECTORY SECONDS PROCESSES SEED FILE-SIZE
 *
 * Each process has a file of its own and a copy of what the file should hold. It writes, reads,
 * maps, truncates, syncs, renames and reopens it, with requests of 1 byte to 1 MiB at any offset,
 * buffered or direct, and compares every byte that it reads. A process that is killed is replaced;
 * its file is left behind.
 *
 * Status 1: an error that no unmount explains. 2: wrong data. The last line counts the processes
 * that were killed, and the processes that ended by an error that a forced or lazy unmount may
 * cause.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096ul
#define LARGEST (1ul << 20)
#define PATIENCE 5 /* seconds for a size to be right */
#define TRIES 10 /* to read where the file has data */

/* What system calls return whose RPC calls a forced unmount has ended. */
#define ERESTARTSYS 512

enum { FAILED = 1, WRONG = 2, UNMOUNTED = 3 };

static uint64_t state;
static size_t file_size;
static size_t length;
static unsigned char *shadow, *buffer;
static char path[512], other[520];
static int fd = -1, flags;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void fail(const char *what)
{
	int e = errno;

	fprintf(stderr, "storm: %s of %s: %s\n", what, path, strerror(e));
	switch (e) {
	case EIO:
	case ESTALE:
	case ENODEV:
	case ENOENT:
	case EINTR:
	case ERESTARTSYS:
		exit(UNMOUNTED);
	}
	exit(FAILED);
}

static void compare(const char *how, size_t at, size_t len)
{
	size_t i;

	if (!memcmp(buffer, shadow + at, len))
		return;
	for (i = 0; buffer[i] == shadow[at + i]; i++)
		;
	/* A forced unmount ends writes that are under way, and their data are lost. */
	if (fsync(fd))
		fail("fsync");
	fprintf(stderr, "storm: WRONG DATA in %s, %s, at %zu of %zu..%zu: %02x instead of %02x\n",
		path, how, at + i, at, at + len, buffer[i], shadow[at + i]);
	exit(WRONG);
}

static void reopen(void)
{
	if (fd >= 0 && close(fd))
		fail("close");
	flags = O_RDWR | O_CREAT;
	flags |= draw() % 4 ? 0 : O_DIRECT;
	flags |= draw() % 8 ? 0 : O_SYNC;
	fd = open(path, flags, 0644);
	if (fd < 0)
		fail("open");
}

static size_t some_bytes(void)
{
	switch (draw() % 6) {
	case 0:
		return 1 + draw() % 64;
	case 1:
		return 1 + draw() % BLOCK;
	case 2:
		return BLOCK;
	case 3:
		return 1 + draw() % (16 * BLOCK);
	case 4:
		return BLOCK * (1 + draw() % 64);
	}
	return 1 + draw() % LARGEST;
}

static size_t some_place(size_t below)
{
	size_t at = draw() % below;

	return draw() % 2 ? at & ~(BLOCK - 1) : at;
}

/* Keeps the copy as a file is that grows to `size`. */
static void grow(size_t size)
{
	if (size > length) {
		memset(shadow + length, 0, size - length);
		length = size;
	}
}

static void do_write(void)
{
	size_t len = least(some_bytes(), file_size);
	size_t at = some_place(file_size - len + 1), done = 0, i;
	uint64_t value = draw();

	for (i = 0; i < len; i++) {
		if (i % 8 == 0)
			value = value * 6364136223846793005ull + 1442695040888963407ull;
		buffer[i] = value >> (i % 8 * 8);
	}
	while (done < len) {
		ssize_t n = pwrite(fd, buffer + done, len - done, at + done);

		if (n < 0)
			fail("write");
		done += n;
	}
	grow(at + len);
	memcpy(shadow + at, buffer, len);
}

/*
 * Returns when the file has its size, which was too small, and prints a line. The caller of this
 * program judges a size that is wrong for a moment.
 */
static void wait_for_size(size_t size)
{
	double end = now() + PATIENCE;
	struct stat found;

	do {
		usleep(10000);
		if (fstat(fd, &found))
			fail("fstat");
		if ((size_t)found.st_size == length) {
			fprintf(stderr, "storm: %s had %zu bytes for a moment, not %zu\n", path, size,
				length);
			return;
		}
	} while (now() < end);
	/* A forced unmount ends writes that are under way, and the size that they would give. */
	if (fsync(fd))
		fail("fsync");
	fprintf(stderr, "storm: WRONG DATA in %s: it has %zu bytes, not %zu\n", path,
		(size_t)found.st_size, length);
	exit(WRONG);
}

static void do_read(void)
{
	size_t len, at, done = 0;
	int tries = 0;

	if (!length)
		return;
	at = some_place(length);
	len = least(some_bytes(), length - at);
	if (draw() % 2)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	while (done < len) {
		ssize_t n = pread(fd, buffer + done, len - done, at + done);

		if (n < 0)
			fail("read");
		if (n == 0 && ++tries < TRIES) {
			wait_for_size(at + done);
		} else if (n == 0) {
			fprintf(stderr, "storm: WRONG DATA in %s: nothing at %zu of %zu\n", path,
				at + done, length);
			exit(WRONG);
		}
		done += n;
	}
	compare(flags & O_DIRECT ? "direct" : "buffered", at, len);
}

static void do_map(void)
{
	size_t len = least(length, LARGEST);
	unsigned char *map;

	if (!length || flags & O_DIRECT)
		return;
	map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	memcpy(buffer, map, len);
	munmap(map, length);
	compare("mapped", 0, len);
}

static void do_truncate(void)
{
	size_t to = draw() % file_size;

	if (ftruncate(fd, to))
		fail("truncate");
	grow(to);
	length = to;
}

static void list(void)
{
	char *slash = strrchr(path, '/');
	DIR *dir;

	*slash = '\0';
	dir = opendir(path);
	*slash = '/';
	if (!dir)
		fail("opendir");
	errno = 0;
	while (readdir(dir))
		;
	if (errno)
		fail("readdir");
	closedir(dir);
}

/* A server that was restarted forgets that it has done so, and whether its reply has arrived. */
static void move(const char *from, const char *to)
{
	struct stat found;

	if (rename(from, to) && (errno != ENOENT || stat(to, &found)))
		fail("rename");
}

static void do_names(void)
{
	struct stat found;

	if (fsync(fd))
		fail("fsync");
	snprintf(other, sizeof(other), "%s.moved", path);
	move(path, other);
	move(other, path);
	if (stat(path, &found))
		fail("stat");
	if ((size_t)found.st_size != length)
		wait_for_size(found.st_size);
	if (draw() % 4 == 0)
		list();
}

static void do_sync(void)
{
	if (fsync(fd))
		fail("fsync");
}

static void *memory(size_t size)
{
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		fail("memory");
	return m;
}

static void work(const char *directory, double end, uint64_t seed, int number)
{
	state = seed * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
	draw();
	shadow = memory(file_size);
	buffer = memory(file_size > LARGEST ? file_size : LARGEST);
	snprintf(path, sizeof(path), "%s/file-%d-%d", directory, number, getpid());
	reopen();
	while (now() < end) {
		switch (draw() % 20) {
		case 0:
			do_truncate();
			break;
		case 1:
			do_names();
			break;
		case 2:
			do_sync();
			break;
		case 3:
			reopen();
			break;
		case 4:
			do_map();
			break;
		case 5 ... 11:
			do_write();
			break;
		default:
			do_read();
		}
	}
	if (close(fd))
		fail("close");
	if (unlink(path) && errno != ENOENT)
		fail("unlink");
	exit(0);
}

int main(int argc, char **argv)
{
	int processes, i, worst = 0, unmounted = 0, killed = 0, status;
	uint64_t seed;
	double end;
	pid_t *pids, pid;

	if (argc != 6) {
		fprintf(stderr, "usage: storm DIRECTORY SECONDS PROCESSES SEED FILE-SIZE\n");
		return FAILED;
	}
	end = now() + atof(argv[2]);
	processes = atoi(argv[3]);
	seed = strtoull(argv[4], NULL, 0);
	file_size = strtoull(argv[5], NULL, 0);
	pids = calloc(processes, sizeof(*pids));
	for (i = 0; i < processes; i++) {
		pids[i] = fork();
		if (!pids[i])
			work(argv[1], end, seed + i, i);
	}
	while ((pid = wait(&status)) > 0) {
		for (i = 0; i < processes && pids[i] != pid; i++)
			;
		if (WIFSIGNALED(status)) {
			killed++;
			if (now() >= end)
				continue;
			seed += 1000;
			pids[i] = fork();
			if (!pids[i])
				work(argv[1], end, seed + i, i);
		} else if (WEXITSTATUS(status) == UNMOUNTED) {
			unmounted++;
		} else if (WEXITSTATUS(status) > worst) {
			worst = WEXITSTATUS(status);
		}
	}
	printf("storm: %d killed, %d ended by an unmount\n", killed, unmounted);
	return worst;
}
