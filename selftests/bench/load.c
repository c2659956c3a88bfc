// SPDX-License-Identifier: GPL-2.0
/*
 * The load that a guest puts on its NFS mount, between marks for the counting
 * emulator (mark.h). Start-up and warm-up lie outside the marks; at a depth
 * above one, both marks come while that many requests are on their way. Where
 * the server counts, MARKS has its address: "load marks" executes the marks there,
 * each at the word of a datagram, which it answers.
 *
 *	load getattr FILE WARM COUNT		attributes, from the server each time
 *	load lookup DIR WARM COUNT		names file-00001 and following
 *	load create DIR WARM COUNT		make and remove a file
 *	load readdir DIR			one reading of the directory
 *	load read|write FILE WARM COUNT SIZE DEPTH	direct I/O
 *	load huge-read|huge-write ...		the same, with memory in huge pages
 *	load mix FILE WARM COUNT DEPTH PATTERN	direct I/O, again and again a pattern
 *						of r and w (4 KiB), R and W (1 MiB)
 *	load put FILE TEXT			write a text into a control file
 *	load run COMMAND...			any command
 *	load marks				execute the marks of programs elsewhere
 *
 * Prints the number of operations between the marks.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mark.h"

#define MAX_DEPTH 256
#define MAX_STEPS 16
#define HUGE_PAGE (2ul << 20)

#define MARKS_PORT 7575

static const char start = '<', stop = '>';

static void execute_mark(char which)
{
	if (which == start)
		mark_start();
	else
		mark_stop();
}

/* Executes a mark, here or at the server. */
static void place_mark(char which)
{
	static int peer = -1;
	const char *where = getenv("MARKS");
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(MARKS_PORT) };

	if (!where) {
		execute_mark(which);
		return;
	}
	if (peer < 0) {
		peer = socket(AF_INET, SOCK_DGRAM, 0);
		if (!inet_aton(where, &addr.sin_addr) || peer < 0 ||
		    connect(peer, (struct sockaddr *)&addr, sizeof(addr)))
			err(1, "marks at %s", where);
	}
	if (send(peer, &which, 1, 0) != 1 || recv(peer, &which, 1, 0) != 1)
		err(1, "a mark at %s", where);
}

/* For the peers of place_mark(), without an end. */
static void serve_marks(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(MARKS_PORT) };
	int own = socket(AF_INET, SOCK_DGRAM, 0);
	char which;

	if (own < 0 || bind(own, (struct sockaddr *)&addr, sizeof(addr)))
		err(1, "marks");
	for (;;) {
		socklen_t size = sizeof(addr);

		if (recvfrom(own, &which, 1, 0, (struct sockaddr *)&addr, &size) != 1)
			continue;
		execute_mark(which);
		if (sendto(own, &which, 1, 0, (struct sockaddr *)&addr, size) != 1)
			err(1, "a mark");
	}
}

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
			place_mark(start);
		if (*what == 'g')
			getattr(fd);
		else if (*what == 'l')
			lookup(fd, i);
		else
			create(fd, i);
	}
	place_mark(stop);
	printf("%ld\n", count);
}

static void readdir_all(const char *path)
{
	DIR *dir = opendir(path);
	long count = 0;

	if (!dir)
		err(1, "%s", path);
	place_mark(start);
	while (readdir(dir))
		count++;
	place_mark(stop);
	printf("%ld\n", count);
}

struct step {
	int write;
	size_t size;
};

/*
 * Blocks of a file that are moved one after the other, `depth` of them at a time.
 * The kinds of them follow a pattern of steps; each has room for the largest.
 */
struct blocks {
	aio_context_t context;
	struct iocb cbs[MAX_DEPTH];
	struct step steps[MAX_STEPS];
	size_t step_count;
	size_t size;
	long slots, next;
	int depth;
};

static void next_block(struct blocks *blocks, struct iocb *cb)
{
	const struct step *step = &blocks->steps[blocks->next % blocks->step_count];

	cb->aio_lio_opcode = step->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
	cb->aio_nbytes = step->size;
	cb->aio_offset = blocks->next++ % blocks->slots * blocks->size;
	if (syscall(SYS_io_submit, blocks->context, 1, &cb) != 1)
		err(1, "io_submit");
}

/*
 * One block is taken and one submitted at a time: the number of system calls
 * does not depend on how many completions happen to be there. At the end
 * nothing is on its way, so that the count is the cost of this many blocks.
 */
static void move(struct blocks *blocks, long number)
{
	struct io_event event;
	long begun;

	for (begun = 0; begun < number && begun < blocks->depth; begun++)
		next_block(blocks, &blocks->cbs[begun]);
	for (long done = 0; done < number; done++) {
		struct iocb *cb;

		if (syscall(SYS_io_getevents, blocks->context, 1, 1, &event, NULL) != 1)
			err(1, "io_getevents");
		cb = (struct iocb *)(uintptr_t)event.obj;
		if (event.res != (long)cb->aio_nbytes)
			errx(1, "%lld of %llu bytes moved", (long long)event.res,
			     (unsigned long long)cb->aio_nbytes);
		if (begun < number) {
			next_block(blocks, cb);
			begun++;
		}
	}
}

static void add_step(struct blocks *blocks, int write, size_t size)
{
	if (blocks->step_count == MAX_STEPS)
		errx(1, "the pattern is too long");
	blocks->steps[blocks->step_count++] = (struct step){ write, size };
	if (size > blocks->size)
		blocks->size = size;
}

static char *memory_of(size_t bytes, int huge)
{
	char *memory;

	if (posix_memalign((void **)&memory, huge ? HUGE_PAGE : 4096, bytes))
		errx(1, "not enough memory");
	if (huge && madvise(memory, bytes, MADV_HUGEPAGE))
		err(1, "huge pages");
	memset(memory, 0x5a, bytes);
	return memory;
}

static void direct(struct blocks *blocks, int fd, long warm, long count, int depth, int huge)
{
	struct stat attributes;
	char *memory;

	if (depth < 1 || depth > MAX_DEPTH || !blocks->size || fstat(fd, &attributes))
		err(1, "depth or size");
	blocks->slots = attributes.st_size / blocks->size;
	blocks->depth = depth;
	if (!blocks->slots)
		errx(1, "the file is too small");
	memory = memory_of(blocks->size * depth, huge);
	if (syscall(SYS_io_setup, depth, &blocks->context))
		err(1, "io_setup");
	for (int i = 0; i < depth; i++) {
		blocks->cbs[i].aio_fildes = fd;
		blocks->cbs[i].aio_buf = (uintptr_t)(memory + i * blocks->size);
	}
	move(blocks, warm);
	place_mark(start);
	move(blocks, count);
	place_mark(stop);
	syscall(SYS_io_destroy, blocks->context);
	printf("%ld\n", count);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t done;

	if (fd < 0)
		err(1, "%s", path);
	place_mark(start);
	done = write(fd, text, strlen(text));
	place_mark(stop);
	if (done != (ssize_t)strlen(text))
		err(1, "%s into %s", text, path);
	printf("1\n");
}

static void run(char **command)
{
	int status;
	pid_t pid;

	place_mark(start);
	pid = fork();
	if (!pid) {
		execvp(command[0], command);
		err(1, "%s", command[0]);
	}
	waitpid(pid, &status, 0);
	place_mark(stop);
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

/* Direct I/O of one kind, or of a pattern of kinds. */
static int direct_of(int argc, char **argv)
{
	static struct blocks blocks;
	const char *what = argv[1];
	int huge = !strncmp(what, "huge-", 5);

	what += huge ? 5 : 0;
	if (argc != 7)
		return 0;
	if (!strcmp(what, "read") || !strcmp(what, "write")) {
		add_step(&blocks, *what == 'w', atol(argv[5]));
		direct(&blocks, open_or_fail(argv[2], O_RDWR | O_DIRECT), atol(argv[3]), atol(argv[4]),
		       atoi(argv[6]), huge);
		return 1;
	}
	if (strcmp(what, "mix"))
		return 0;
	for (const char *letter = argv[6]; *letter; letter++)
		add_step(&blocks, strchr("wW", *letter) != NULL, strchr("RW", *letter) ? 1 << 20 : 4096);
	direct(&blocks, open_or_fail(argv[2], O_RDWR | O_DIRECT), atol(argv[3]), atol(argv[4]),
	       atoi(argv[5]), 0);
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (argc == 2 && !strcmp(argv[1], "marks"))
		serve_marks();
	else if (!strcmp(what, "run"))
		run(argv + 2);
	else if (!strcmp(what, "readdir"))
		readdir_all(argv[2]);
	else if (!strcmp(what, "put") && argc == 4)
		put(argv[2], argv[3]);
	else if (argc == 5 && (!strcmp(what, "getattr") || !strcmp(what, "lookup") ||
			       !strcmp(what, "create")))
		names(what, open_or_fail(argv[2], O_RDONLY), atol(argv[3]), atol(argv[4]));
	else if (argc < 3 || !direct_of(argc, argv))
		errx(2, "see the head of load.c for how to call this");
	return 0;
}
