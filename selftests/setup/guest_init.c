// SPDX-License-Identifier: GPL-2.0
/*
 * First program of a guest whose kernel has neither 9p nor the network adapter built in: loads the
 * modules of its initrd in the order of /modules, mounts the root file system that the harness
 * shares, and continues with that root's /sbin/guest-init.
 *
 * It changes its own root, so that what the kernel starts later, modprobe above all, starts in the
 * shared one as well. Built with the kernel's nolibc, since the initrd has no library.
 */

#define ROOT_OPTIONS "trans=virtio,version=9p2000.L,msize=262144,cache=loose"

/* The kernel panics when process 1 ends, and the message stands right before that. */
static void must(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
}

static void load(const char *module)
{
	int fd = open(module, O_RDONLY);

	must(fd, module);
	must(syscall(__NR_finit_module, fd, "", 0), module);
	close(fd);
}

static void load_modules(void)
{
	char list[1024], *name = list, *end;
	int fd = open("/modules", O_RDONLY), size;

	must(fd, "/modules");
	size = read(fd, list, sizeof(list) - 1);
	must(size, "/modules");
	list[size] = '\0';
	while ((end = strchr(name, '\n'))) {
		*end = '\0';
		load(name);
		name = end + 1;
	}
	close(fd);
}

int main(int argc, char **argv, char **envp)
{
	load_modules();
	mkdir("/root", 0755);
	must(mount("root", "/root", "9p", MS_RDONLY, ROOT_OPTIONS), "mount the root");
	must(chdir("/root"), "/root");
	must(chroot("."), "chroot");
	must(execve("/sbin/guest-init", argv, envp), "/sbin/guest-init");
	return 1;
}
