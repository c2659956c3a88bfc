// SPDX-License-Identifier: GPL-2.0
/*
 * The load that a guest puts on its NFS mount, between marks for the counting
 * emulator (mark.h). Start-up and warm-up lie outside the marks; at a depth
 * above one, both marks come while that many requests are on their way.
 *
 *	load getattr FILE WARM COUNT		attributes, from the server each time
 *	load lookup DIR WARM COUNT		names file-00001 and following
 *	load create DIR WARM COUNT		make and remove a file
 *	load readdir DIR			one reading of the directory
 *	load read|write FILE WARM COUNT SIZE DEPTH	direct I/O
 *	load put FILE TEXT			write a text into a control file
 *	load run COMMAND...			any command
 *
 * Prints how many operations lay between the marks.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mark.h"

#define MAX_DEPTH 256

static void getattr(int fd)
{
	struct statx attributes;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &attributes))
		err(1, "statx");
}

static void lookup(int dir, long n)
{
	char name[32];
	struct stat attributes;

	snprintf(name, sizeof(name), "file-%05ld", n + 1);
	if (fstatat(dir, name, &attributes, 0))
		err(1, "stat of %s", name);
}

static void create(int dir, long n)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "new-%05ld", n);
	fd = openat(dir, name, O_CREAT | O_WRONLY, 0644);
	if (fd < 0)
		err(1, "making %s", name);
	if (close(fd) || unlinkat(dir, name, 0))
		err(1, "removing %s", name);
}

static void names(const char *what, int fd, long warm, long count)
{
	for (long i = 0; i < warm + count; i++) {
		if (i == warm)
			mark_start();
		if (*what == 'g')
			getattr(fd);
		else if (*what == 'l')
			lookup(fd, i);
		else
			create(fd, i);
	}
	mark_stop();
	printf("%ld\n", count);
}

static void readdir_all(const char *path)
{
	DIR *dir = opendir(path);
	long count = 0;

	if (!dir)
		err(1, "%s", path);
	mark_start();
	while (readdir(dir))
		count++;
	mark_stop();
	printf("%ld\n", count);
}

static void submit(aio_context_t context, struct iocb *cb, off_t offset)
{
	cb->aio_offset = offset;
	if (syscall(SYS_io_submit, context, 1, &cb) != 1)
		err(1, "io_submit");
}

/* Blocks of a file that are moved one after the other, `depth` of them at a time. */
struct blocks {
	aio_context_t context;
	struct iocb cbs[MAX_DEPTH];
	size_t size;
	long slots, next;
	int depth;
};

static void next_block(struct blocks *blocks, struct iocb *cb)
{
	submit(blocks->context, cb, blocks->next++ % blocks->slots * blocks->size);
}

/*
 * One block is taken and one submitted at a time: the number of system calls
 * does not depend on how many completions happen to be there. At the end
 * nothing is on its way, so that what is counted is what this many blocks cost.
 */
static void move(struct blocks *blocks, long number)
{
	struct io_event event;
	long begun;

	for (begun = 0; begun < number && begun < blocks->depth; begun++)
		next_block(blocks, &blocks->cbs[begun]);
	for (long done = 0; done < number; done++) {
		if (syscall(SYS_io_getevents, blocks->context, 1, 1, &event, NULL) != 1)
			err(1, "io_getevents");
		if (event.res != (long)blocks->size)
			errx(1, "%lld of %zu bytes moved", (long long)event.res, blocks->size);
		if (begun < number) {
			next_block(blocks, (struct iocb *)(uintptr_t)event.obj);
			begun++;
		}
	}
}

static void direct(int write, int fd, long warm, long count, size_t size, int depth)
{
	static struct blocks blocks;
	struct stat attributes;
	char *memory;

	if (depth < 1 || depth > MAX_DEPTH || fstat(fd, &attributes))
		err(1, "depth or size");
	blocks.size = size;
	blocks.slots = attributes.st_size / size;
	blocks.depth = depth;
	if (!blocks.slots || posix_memalign((void **)&memory, 4096, size * depth))
		errx(1, "the file is too small");
	memset(memory, 0x5a, size * depth);
	if (syscall(SYS_io_setup, depth, &blocks.context))
		err(1, "io_setup");
	for (int i = 0; i < depth; i++) {
		blocks.cbs[i].aio_fildes = fd;
		blocks.cbs[i].aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
		blocks.cbs[i].aio_buf = (uintptr_t)(memory + i * size);
		blocks.cbs[i].aio_nbytes = size;
	}
	move(&blocks, warm);
	mark_start();
	move(&blocks, count);
	mark_stop();
	syscall(SYS_io_destroy, blocks.context);
	printf("%ld\n", count);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t done;

	if (fd < 0)
		err(1, "%s", path);
	mark_start();
	done = write(fd, text, strlen(text));
	mark_stop();
	if (done != (ssize_t)strlen(text))
		err(1, "%s into %s", text, path);
	printf("1\n");
}

static void run(char **command)
{
	int status;
	pid_t pid;

	mark_start();
	pid = fork();
	if (!pid) {
		execvp(command[0], command);
		err(1, "%s", command[0]);
	}
	waitpid(pid, &status, 0);
	mark_stop();
	if (status)
		errx(1, "%s failed", command[0]);
	printf("1\n");
}

static int open_or_fail(const char *path, int flags)
{
	int fd = open(path, flags);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (!strcmp(what, "run"))
		run(argv + 2);
	else if (!strcmp(what, "readdir"))
		readdir_all(argv[2]);
	else if (!strcmp(what, "put") && argc == 4)
		put(argv[2], argv[3]);
	else if (argc == 7 && (!strcmp(what, "read") || !strcmp(what, "write")))
		direct(*what == 'w', open_or_fail(argv[2], O_RDWR | O_DIRECT), atol(argv[3]),
		       atol(argv[4]), atol(argv[5]), atoi(argv[6]));
	else if (argc == 5 && (!strcmp(what, "getattr") || !strcmp(what, "lookup") ||
			       !strcmp(what, "create")))
		names(what, open_or_fail(argv[2], O_RDONLY), atol(argv[3]), atol(argv[4]));
	else
		errx(2, "see the head of load.c for how to call this");
	return 0;
}
