// SPDX-License-Identifier: GPL-2.0
/*
 * Calls an RPC service over RDMA, for tests: chosen sizes, chosen transfer modes, every byte of
 * the replies checked, every call timed. It uses whichever module has the transport of ident 256.
 *
 * Commands are lines written to /sys/kernel/debug/rpcload/control, one at a time; a write returns
 * when its command is over. Words in brackets may be left out.
 *
 *   open addr=ADDRESS [port=20050] [rpcbind=0|1] [program=echo|nfs] [auth=null|unix]
 *	[reverse=THREADS] [idle=0|1]
 *	Makes a client and connects it. Program nfs is version 3 of NFS, whose NULL alone is
 *	called; its default port is 20049. With rpcbind=1 sunrpc gets the port from rpcbind. With
 *	reverse the server may make calls over the connection, which that many threads serve
 *	(rpcload.h describes the program). With idle=1 the connection ends when it is idle.
 *   idle seconds=N
 *	Sets the time for that, instead of the transport's own. Needs idle=1.
 *   crowd clients=N
 *	Makes that many more clients like the open one, each with a connection of its own.
 *   close
 *	Closes them, too.
 *   reconnect
 *	Has the transport drop its connection, and times a call of NULL over the next one.
 *   run [proc=null|echo] [count=N] [depth=N] [verify=0|1] [seed=N] [answer=0|1]
 *       [each=0|1] [memory=any|contiguous|scattered]
 *       [call=BYTES] [call_in=head|pages|tail|parts] [call_ddp=0|1] [call_base=BYTES]
 *       [reply=BYTES] [reply_in=head|pages|tail|parts] [reply_ddp=0|1] [reply_base=BYTES]
 *       [reply_room=BYTES] [reply_end=0|1] [flip=none|call|reply] [vary=0|1]
 *	Makes count calls, depth of them at a time. call and reply are the bytes of data in an
 *	ECHO's argument and result. A call may have up to 2 MiB, to see the fate of one that no
 *	transport takes; the service takes 1 MiB.
 *	each		whether the crowd makes the calls, as many over one client after another.
 *	memory		what the pages of a message are: contiguous memory, or scattered, so that none
 *			follows the one before it; any is as they come, which changes from run to
 *			run.
 *	..._in		where in their buffer these are. "parts" is some in each of the three. Head
 *			and tail are contiguous memory, and take 64 KiB at most.
 *	..._ddp		marks the pages as fit for direct placement, so that the transport may take
 *			them for a Read chunk (call) or a Write chunk (reply); needs ..._in=pages.
 *	..._base	where in its page the data begins.
 *	reply_room	room for a reply larger than the actual one; not with reply_ddp=1.
 *	reply_end	whether a word follows the result.
 *	verify		whether both sides check their data; the times then include our part of
 *			that. Without it neither side spends time on the data.
 *	answer		whether a call waits for its reply; if not, it is over when it was sent. The
 *			service replies all the same. Only with proc=null.
 *	flip		spoils one byte of the argument or of the result, to be found by verify=1.
 *	vary		gives each call sizes of its own up to the given, and places and marks
 *			of its own. They follow from the seed.
 *
 *   So the transfer modes are had on purpose:
 *	inline both ways	small call and reply, anywhere
 *	Read chunk		large call_in=pages call_ddp=1
 *	Long call		large call_in=pages, or any other place
 *	Write chunk		large reply_in=pages reply_ddp=1
 *	Reply chunk		large reply_in=pages, or any other place
 *
 * A command fails with EINVAL when it makes no sense, ENOTCONN or EISCONN when it comes at the
 * wrong time, EINTR when a signal ended it, and otherwise with the error of sunrpc. A run that was
 * carried out fails with the errno of the first call that failed, else with EBADMSG if data was
 * wrong.
 *
 * Reading the file gives lines NAME=VALUE about the last command: "command", and "error" (0 or a
 * negative errno), with "reason" if more is known; after open and reconnect "connect_ns",
 * "connects" (connections made since open) and "idle_seconds" (0 if it stays for ever); after crowd
 * "clients" and "connect_ns" (of all); after run "calls" (made, whether or not they failed),
 * "errors", "call_mismatches" (as the server reported them), "reply_mismatches", "mismatches"
 * (their sum), "total_ns" (from the start of the first call to the end of the last), and "min_ns",
 * "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns" (of the calls that did not fail). With each=1
 * all times are the last client's.
 *
 * The file stats, next to it, holds the counters of the transport, as in
 * /proc/self/mountstats. Both files wait for a command that is under way.
 *
 * The file stall, which waits for nothing, holds back the replies to the reverse call STALL while
 * it is 1; closing the client sets it to 0. The module parameter reverse_calls is the number of
 * reverse calls that the threads have taken up since loading.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sunrpc/addr.h>
#include <linux/uaccess.h>

#include "rpcload_client.h"

#define MAX_LINE	512
#define MAX_DEPTH	1024
#define MAX_COUNT	SZ_4M
#define MAX_CROWD	SZ_16K
#define NFS_PORT	20049

enum { PROGRAM_ECHO, PROGRAM_NFS };
enum { AUTH_NULL, AUTH_UNIX };

/* In the order of their numbers. */
static const char *const places[] = { "head", "pages", "tail", "parts", NULL };
static const char *const flips[] = { "none", "call", "reply", NULL };
static const char *const memories[] = { "any", "contiguous", "scattered", NULL };
static const char *const procs[] = { "null", "echo", NULL };
static const char *const programs[] = { "echo", "nfs", NULL };
static const char *const flavors[] = { "null", "unix", NULL };

/* Held during commands and while their results are read; protects the following variables. */
static DEFINE_MUTEX(lock);
static struct rpc_clnt *client;
static u32 client_program;
static struct sockaddr_storage address;
static struct rpc_create_args arguments;
static char result[1024];
static size_t result_len;
static char reason[160];

static const struct rpc_message null_call = { .rpc_proc = &rpcload_null_proc };

static struct dentry *directory;

static void __printf(1, 2) say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	result_len += vscnprintf(result + result_len, sizeof(result) - result_len, fmt, args);
	va_end(args);
}

/* Records why a command is refused; returns the error for it. */
static int __printf(2, 3) refuse(int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vscnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	return err;
}

/* A word NAME=VALUE: a number up to max, or one of the choices, or text. */
struct field {
	const char *name;
	u32 *value;
	u32 max;
	const char *const *choices;
	char **text;
};

static int parse_field(const struct field *field, char *value)
{
	int i;

	if (field->text) {
		*field->text = value;
		return 0;
	}
	if (field->choices) {
		i = match_string(field->choices, -1, value);
		if (i < 0)
			return refuse(-EINVAL, "%s cannot be '%s'", field->name, value);
		*field->value = i;
		return 0;
	}
	if (kstrtou32(value, 0, field->value) || *field->value > field->max)
		return refuse(-EINVAL, "%s is a number up to %u, not '%s'", field->name,
			      field->max, value);
	return 0;
}

/* Reads the words of a command; fields without a name end the table. */
static int parse(char *line, const struct field *fields)
{
	char *word;

	while ((word = strsep(&line, " \t"))) {
		char *name = strsep(&word, "=");
		const struct field *field;
		int err;

		if (!*name)
			continue;
		for (field = fields; field->name && strcmp(field->name, name); field++)
			;
		if (!field->name || !word)
			return refuse(-EINVAL, "what is '%s'?", name);
		err = parse_field(field, word);
		if (err)
			return err;
	}
	return 0;
}

static struct rpc_xprt *get_xprt(void)
{
	struct rpc_xprt *xprt;

	rcu_read_lock();
	xprt = xprt_get(rcu_dereference(client->cl_xprt));
	rcu_read_unlock();
	return xprt;
}

static void stop_reverse(void)
{
	struct rpc_xprt *xprt = get_xprt();

	if (xprt)
		rpcload_reverse_stop(xprt);
	xprt_put(xprt);
}

static void close_client(void)
{
	if (!client)
		return;
	rpcload_crowd_close();
	stop_reverse();
	rpc_shutdown_client(client);
	client = NULL;
}

static int start_reverse(u32 threads)
{
	struct rpc_xprt *xprt = get_xprt();
	int err = xprt ? rpcload_reverse_start(xprt, threads) : -ENOTCONN;

	xprt_put(xprt);
	return err ? refuse(err, "no reverse service") : 0;
}

static void say_connect(u64 ns)
{
	struct rpc_xprt *xprt = get_xprt();

	say("connect_ns=%llu\n", ns);
	if (xprt)
		say("connects=%lu\nidle_seconds=%lu\n", xprt->stat.connect_count,
		    xprt->idle_timeout / HZ);
	xprt_put(xprt);
}

static int do_open(char *line)
{
	u32 port = 0, program = PROGRAM_ECHO, flavor = AUTH_NULL, threads = 0, idle = 0, ask = 0;
	char *text = NULL;
	const struct field fields[] = {
		{ .name = "addr", .text = &text },
		{ .name = "port", .value = &port, .max = 65535 },
		{ .name = "rpcbind", .value = &ask, .max = 1 },
		{ .name = "program", .value = &program, .choices = programs },
		{ .name = "auth", .value = &flavor, .choices = flavors },
		{ .name = "reverse", .value = &threads, .max = RPCLOAD_MAX_THREADS },
		{ .name = "idle", .value = &idle, .max = 1 },
		{}
	};
	struct rpc_create_args args = {
		.net		= current->nsproxy->net_ns,
		.protocol	= XPRT_TRANSPORT_RDMA,
		.address	= (struct sockaddr *)&address,
		.cred		= current_cred(),
		.flags		= RPC_CLNT_CREATE_NONPRIVPORT,
	};
	struct rpc_clnt *clnt;
	u64 start;
	int err = parse(line, fields);

	if (err)
		return err;
	if (client)
		return refuse(-EISCONN, "a client is open");
	if (!text)
		return refuse(-EINVAL, "open needs an addr=");
	memset(&address, 0, sizeof(address));
	args.addrsize = rpc_pton(args.net, text, strlen(text), args.address, sizeof(address));
	if (!args.addrsize)
		return refuse(-EINVAL, "'%s' is no address", text);
	if (program == PROGRAM_NFS) {
		args.program = &rpcload_nfs_program;
		args.version = 3;
		rpc_set_port(args.address, port ?: NFS_PORT);
	} else {
		args.program = &rpcload_echo_program;
		args.version = RPCLOAD_VERSION;
		rpc_set_port(args.address, port ?: RPCLOAD_PORT);
	}
	if (ask) {
		rpc_set_port(args.address, 0);
		args.flags |= RPC_CLNT_CREATE_AUTOBIND;
	}
	if (!idle)
		args.flags |= RPC_CLNT_CREATE_NO_IDLE_TIMEOUT;
	args.authflavor = flavor == AUTH_UNIX ? RPC_AUTH_UNIX : RPC_AUTH_NULL;

	/* This makes a call of NULL, so it returns with a connection. */
	start = ktime_get_ns();
	clnt = rpc_create(&args);
	if (IS_ERR(clnt))
		return refuse(PTR_ERR(clnt), "cannot connect to %s", text);
	client = clnt;
	client_program = program;
	arguments = args;
	say_connect(ktime_get_ns() - start);
	/*
	 * From the first reply with its flavor (the call above has another) sunrpc learns how long the
	 * header of a reply is. Until then it makes the head of receive buffers too short, and data that
	 * is placed directly no longer follows the header.
	 */
	err = rpc_call_sync(client, &null_call, 0);
	if (!err && threads)
		err = start_reverse(threads);
	if (err)
		close_client();
	return err;
}

static int no_client(void)
{
	return refuse(-ENOTCONN, "no client is open");
}

static int do_crowd(char *line)
{
	u32 count = 0;
	const struct field fields[] = {
		{ .name = "clients", .value = &count, .max = MAX_CROWD },
		{}
	};
	int err = parse(line, fields);
	u64 start;

	if (err)
		return err;
	if (!client)
		return no_client();
	/* The task that opened the first client may be gone. */
	arguments.net = current->nsproxy->net_ns;
	arguments.cred = current_cred();
	start = ktime_get_ns();
	err = rpcload_crowd_open(&arguments, count);
	say("clients=%u\nconnect_ns=%llu\n", rpcload_crowd_size(), ktime_get_ns() - start);
	return err;
}

static int do_close(char *line)
{
	const struct field fields[] = { {} };
	int err = parse(line, fields);

	if (err)
		return err;
	if (!client)
		return no_client();
	close_client();
	return 0;
}

static int do_reconnect(char *line)
{
	const struct field fields[] = { {} };
	struct rpc_xprt *xprt;
	int err = parse(line, fields);
	u64 start;

	if (err)
		return err;
	if (!client)
		return no_client();
	xprt = get_xprt();
	start = ktime_get_ns();
	/* From here on nothing is sent over the present connection. */
	if (xprt)
		xprt_force_disconnect(xprt);
	xprt_put(xprt);
	err = rpc_call_sync(client, &null_call, 0);
	if (!err)
		say_connect(ktime_get_ns() - start);
	return err;
}

static int do_idle(char *line)
{
	u32 seconds = 0;
	const struct field fields[] = {
		{ .name = "seconds", .value = &seconds, .max = 3600 },
		{}
	};
	struct rpc_xprt *xprt;
	int err = parse(line, fields);

	if (err)
		return err;
	if (!client)
		return no_client();
	xprt = get_xprt();
	if (!xprt || !xprt->idle_timeout || !seconds)
		err = refuse(-EINVAL, "this needs open idle=1 and seconds=");
	else
		xprt->idle_timeout = seconds * HZ;
	xprt_put(xprt);
	/* sunrpc sets its timer when a call has ended. */
	return err ?: rpc_call_sync(client, &null_call, 0);
}

static int check_shape(const char *name, struct rpcload_shape *shape, u32 vary)
{
	if (!shape->room)
		shape->room = shape->len;
	if (shape->room < shape->len)
		return refuse(-EINVAL, "%s_room is less than %s", name, name);
	if (vary)
		return 0;
	if ((shape->in == RPCLOAD_HEAD || shape->in == RPCLOAD_TAIL) &&
	    shape->room > RPCLOAD_MAX_KVEC)
		return refuse(-EINVAL, "%s_in=%s takes %u bytes at most", name,
			      places[shape->in], RPCLOAD_MAX_KVEC);
	if (shape->ddp && shape->in != RPCLOAD_PAGES)
		return refuse(-EINVAL, "%s_ddp=1 needs %s_in=pages", name, name);
	if (shape->ddp && shape->room != shape->len)
		return refuse(-EINVAL, "%s_ddp=1 leaves no room", name);
	return 0;
}

static int check_params(struct rpcload_params *params)
{
	u64 pages = 0;
	int err = check_shape("call", &params->call, params->vary);

	if (!err)
		err = check_shape("reply", &params->reply, params->vary);
	if (err)
		return err;
	if (!params->count || !params->depth)
		return refuse(-EINVAL, "%s is 1 at least", params->count ? "depth" : "count");
	if (params->proc == RPCLOAD_ECHO && client_program == PROGRAM_NFS)
		return refuse(-EINVAL, "program nfs has no echo");
	if (params->proc == RPCLOAD_ECHO && !params->answer)
		return refuse(-EINVAL, "answer=0 needs proc=null");
	if (params->flip != RPCLOAD_FLIP_NONE && !params->verify)
		return refuse(-EINVAL, "flip=%s needs verify=1", flips[params->flip]);
	if ((params->flip == RPCLOAD_FLIP_CALL && !params->call.len) ||
	    (params->flip == RPCLOAD_FLIP_REPLY && !params->reply.len))
		return refuse(-EINVAL, "there is nothing to flip");
	if (params->proc == RPCLOAD_ECHO)
		pages = (u64)params->depth * (rpcload_pages_of(&params->call, params->vary) +
					      rpcload_pages_of(&params->reply, params->vary));
	if (pages > totalram_pages() / 2)
		return refuse(-EINVAL, "that takes %llu pages, of which there are %lu", pages,
			      totalram_pages());
	return 0;
}

static void say_result(const struct rpcload_result *res)
{
	say("calls=%u\nerrors=%u\n", res->calls, res->errors);
	say("call_mismatches=%u\nreply_mismatches=%u\nmismatches=%u\n", res->call_mismatches,
	    res->reply_mismatches, res->call_mismatches + res->reply_mismatches);
	say("total_ns=%llu\nmin_ns=%llu\np50_ns=%llu\np90_ns=%llu\np99_ns=%llu\n", res->total_ns,
	    res->min_ns, res->p50_ns, res->p90_ns, res->p99_ns);
	say("p999_ns=%llu\nmax_ns=%llu\n", res->p999_ns, res->max_ns);
}

static int do_run(char *line)
{
	u32 each = 0;
	struct rpcload_params params = {
		.proc = RPCLOAD_ECHO, .count = 1, .depth = 1, .verify = 1, .end = 1, .answer = 1,
	};
	const struct field fields[] = {
		{ .name = "proc", .value = &params.proc, .choices = procs },
		{ .name = "count", .value = &params.count, .max = MAX_COUNT },
		{ .name = "depth", .value = &params.depth, .max = MAX_DEPTH },
		{ .name = "verify", .value = &params.verify, .max = 1 },
		{ .name = "seed", .value = &params.seed, .max = U32_MAX },
		{ .name = "answer", .value = &params.answer, .max = 1 },
		{ .name = "flip", .value = &params.flip, .choices = flips },
		{ .name = "vary", .value = &params.vary, .max = 1 },
		{ .name = "each", .value = &each, .max = 1 },
		{ .name = "memory", .value = &params.memory, .choices = memories },
		{ .name = "call", .value = &params.call.len, .max = RPCLOAD_MAX_CALL },
		{ .name = "call_in", .value = &params.call.in, .choices = places },
		{ .name = "call_ddp", .value = &params.call.ddp, .max = 1 },
		{ .name = "call_base", .value = &params.call.base, .max = PAGE_SIZE - 1 },
		{ .name = "reply", .value = &params.reply.len, .max = RPCLOAD_MAX_DATA },
		{ .name = "reply_in", .value = &params.reply.in, .choices = places },
		{ .name = "reply_ddp", .value = &params.reply.ddp, .max = 1 },
		{ .name = "reply_base", .value = &params.reply.base, .max = PAGE_SIZE - 1 },
		{ .name = "reply_room", .value = &params.reply.room, .max = RPCLOAD_MAX_DATA },
		{ .name = "reply_end", .value = &params.end, .max = 1 },
		{}
	};
	struct rpcload_result res = {};
	int err = parse(line, fields);

	if (err)
		return err;
	if (!client)
		return no_client();
	err = check_params(&params);
	if (!err && each && !rpcload_crowd_size())
		err = refuse(-ENOTCONN, "there is no crowd");
	if (err)
		return err;
	err = each ? rpcload_crowd_run(&params, &res) : rpcload_run(client, &params, &res);
	if (err && err != -EINTR)
		return err;
	say_result(&res);
	if (!err)
		err = res.error;
	if (!err && res.call_mismatches + res.reply_mismatches)
		err = -EBADMSG;
	return err;
}

static const struct {
	const char *name;
	int (*run)(char *line);
} commands[] = {
	{ "open", do_open },
	{ "crowd", do_crowd },
	{ "close", do_close },
	{ "run", do_run },
	{ "reconnect", do_reconnect },
	{ "idle", do_idle },
};

static int execute(char *line)
{
	char *name = strsep(&line, " \t");
	u32 i;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, name))
			continue;
		say("command=%s\n", name);
		return commands[i].run(line);
	}
	return refuse(-EINVAL, "no such command: '%s'", name);
}

static ssize_t control_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	char *line;
	int err;

	if (len > MAX_LINE)
		return -EINVAL;
	line = memdup_user_nul(from, len);
	if (IS_ERR(line))
		return PTR_ERR(line);
	err = mutex_lock_interruptible(&lock);
	if (err)
		goto out;

	reason[0] = '\0';
	result_len = 0;
	err = execute(strim(line));
	/* A command that was interrupted is not to be started again. */
	if (err == -ERESTARTSYS)
		err = -EINTR;
	say("error=%d\n", err);
	if (reason[0]) {
		say("reason=%s\n", reason);
		pr_info("%s\n", reason);
	}
	mutex_unlock(&lock);
out:
	kfree(line);
	return err ?: len;
}

static int control_show(struct seq_file *seq, void *data)
{
	int err = mutex_lock_interruptible(&lock);

	if (err)
		return err;
	seq_write(seq, result, result_len);
	mutex_unlock(&lock);
	return 0;
}

static int control_open(struct inode *inode, struct file *file)
{
	return single_open(file, control_show, NULL);
}

static const struct file_operations control_fops = {
	.owner		= THIS_MODULE,
	.open		= control_open,
	.read		= seq_read,
	.write		= control_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int stats_show(struct seq_file *seq, void *data)
{
	struct rpc_xprt *xprt = NULL;
	int err = mutex_lock_interruptible(&lock);

	if (err)
		return err;
	if (client)
		xprt = get_xprt();
	if (xprt)
		xprt->ops->print_stats(xprt, seq);
	xprt_put(xprt);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int stall_get(void *data, u64 *value)
{
	*value = rpcload_reverse_stalls();
	return 0;
}

static int stall_set(void *data, u64 value)
{
	rpcload_reverse_stall(value);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(stall_fops, stall_get, stall_set, "%llu\n");

static int __init rpcload_init(void)
{
	directory = debugfs_create_dir("rpcload", NULL);
	debugfs_create_file("control", 0600, directory, NULL, &control_fops);
	debugfs_create_file("stats", 0400, directory, NULL, &stats_fops);
	debugfs_create_file("stall", 0600, directory, NULL, &stall_fops);
	return PTR_ERR_OR_ZERO(directory);
}

static void __exit rpcload_exit(void)
{
	debugfs_remove(directory);
	close_client();
}

module_init(rpcload_init);
module_exit(rpcload_exit);
MODULE_DESCRIPTION("RPC client over RDMA for tests");
MODULE_LICENSE("GPL");
