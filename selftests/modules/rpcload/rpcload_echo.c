// SPDX-License-Identifier: GPL-2.0
/*
 * An RPC service over RDMA for tests: it checks its arguments and replies as the call requests.
 *
 * It runs on the server side of sunrpc and its transport of class "rdma", so that what is tested
 * is the client on the other side. rpcload.h describes the program.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/svcsock.h>

#include "rpcload.h"

/* The share of the head and of the tail under RPCLOAD_IN_PARTS; they share a page with the header. */
#define PART		1024

static ushort port = RPCLOAD_PORT;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "port to listen on");

static unsigned int threads = 8;
module_param(threads, uint, 0444);
MODULE_PARM_DESC(threads, "number of threads");

static atomic_t calls = ATOMIC_INIT(0);
static atomic_t bad_calls = ATOMIC_INIT(0);

static struct svc_serv *serv;
/* Completed by each thread as it leaves the code of this module. */
static DECLARE_COMPLETION(thread_gone);
/* The result of a call that does not want it checked: no time is spent on filling pages. */
static struct page *blank;

struct echo_args {
	u32 seed;
	u32 reply_len;
	u32 flags;
	u32 len;
	u32 end;
	struct xdr_buf data;
};

struct echo_res {
	u32 status;
};

static bool decode_nothing(struct svc_rqst *rqstp, struct xdr_stream *xdr)
{
	return true;
}

static bool encode_nothing(struct svc_rqst *rqstp, struct xdr_stream *xdr)
{
	return true;
}

static __be32 do_nothing(struct svc_rqst *rqstp)
{
	return rpc_success;
}

static bool decode_echo(struct svc_rqst *rqstp, struct xdr_stream *xdr)
{
	struct echo_args *args = rqstp->rq_argp;

	if (xdr_stream_decode_u32(xdr, &args->seed) < 0 ||
	    xdr_stream_decode_u32(xdr, &args->reply_len) < 0 ||
	    xdr_stream_decode_u32(xdr, &args->flags) < 0 ||
	    xdr_stream_decode_u32(xdr, &args->len) < 0)
		return false;
	if (args->len > RPCLOAD_MAX_DATA || args->reply_len > RPCLOAD_MAX_DATA)
		return false;
	/* The argument may begin in the head, continue in the pages and end in the tail. */
	if (!xdr_stream_subsegment(xdr, &args->data, args->len))
		return false;
	return xdr_stream_decode_u32(xdr, &args->end) >= 0;
}

static __be32 do_echo(struct svc_rqst *rqstp)
{
	struct echo_args *args = rqstp->rq_argp;
	struct echo_res *res = rqstp->rq_resp;
	u32 good = args->len;

	if (args->flags & RPCLOAD_CHECK)
		good = rpcload_check_buf(&args->data, args->seed);
	res->status = 0;
	if (good != args->len || args->end != rpcload_end(args->seed)) {
		res->status = good + 1;
		atomic_inc(&bad_calls);
		pr_debug("seed %#x: byte %u of %u is wrong, end %#x\n",
			 args->seed, good, args->len, args->end);
	}
	atomic_inc(&calls);
	return rpc_success;
}

/* Spoils the byte to be spoilt if it is among the n from offset on. */
static void spoil(const struct echo_args *args, u8 *to, u32 n, u32 offset)
{
	u32 at = rpcload_spoilt(args->reply_len);

	if ((args->flags & RPCLOAD_FLIP) && at >= offset && at - offset < n)
		to[at - offset] ^= 1;
}

/* Encodes n bytes of the result where the stream is, with their padding. */
static bool encode_bytes(struct xdr_stream *xdr, const struct echo_args *args, u32 n, u32 offset)
{
	while (n) {
		/* Never across the end of a page, where the stream would have to move data. */
		u32 room = xdr->end > xdr->p ? (u8 *)xdr->end - (u8 *)xdr->p : PAGE_SIZE;
		u32 now = min(n, room);
		u8 *to = (u8 *)xdr_reserve_space(xdr, now);

		if (!to)
			return false;
		memset(to + now, 0, xdr_pad_size(now));
		if (args->flags & RPCLOAD_CHECK) {
			rpcload_fill(to, now, rpcload_reply_seed(args->seed), offset);
			spoil(args, to, now, offset);
		} else {
			memset(to, 0, now);
		}
		n -= now;
		offset += now;
	}
	return true;
}

/* Puts n bytes of the result into the reply's pages, the rest into the tail. */
static bool encode_pages(struct svc_rqst *rqstp, struct xdr_stream *xdr,
			 const struct echo_args *args, u32 n, u32 offset)
{
	struct page **pages = rqstp->rq_next_page;
	u32 done, now;

	for (done = 0; done < n; done += now) {
		now = min_t(u32, n - done, PAGE_SIZE);
		if (args->flags & RPCLOAD_CHECK) {
			u8 *to = page_address(*rqstp->rq_next_page++);

			rpcload_fill(to, now, rpcload_reply_seed(args->seed), offset + done);
			spoil(args, to, now, offset + done);
		} else if (!svc_rqst_replace_page(rqstp, blank)) {
			return false;
		}
	}
	svcxdr_encode_opaque_pages(rqstp, xdr, pages, 0, n);
	return true;
}

static bool encode_data(struct svc_rqst *rqstp, struct xdr_stream *xdr,
			const struct echo_args *args)
{
	u32 len = args->reply_len;

	if (args->flags & RPCLOAD_IN_PAGES) {
		u32 at = xdr->buf->len;

		return encode_pages(rqstp, xdr, args, len, 0) &&
		       svc_encode_result_payload(rqstp, at, len) == 0;
	}
	if (args->flags & RPCLOAD_IN_PARTS) {
		/* Padding may come only at the end: the first two are whole words. */
		u32 head = min(len / 3, PART) & ~3;
		u32 pages = (len - 2 * head) & ~3;

		return encode_bytes(xdr, args, head, 0) &&
		       encode_pages(rqstp, xdr, args, pages, head) &&
		       encode_bytes(xdr, args, len - head - pages, head + pages);
	}
	return encode_bytes(xdr, args, len, 0);
}

static bool encode_echo(struct svc_rqst *rqstp, struct xdr_stream *xdr)
{
	const struct echo_args *args = rqstp->rq_argp;
	const struct echo_res *res = rqstp->rq_resp;
	u32 seed = rpcload_reply_seed(args->seed);

	if (xdr_stream_encode_u32(xdr, res->status) < 0 ||
	    xdr_stream_encode_u32(xdr, seed) < 0 ||
	    xdr_stream_encode_u32(xdr, args->reply_len) < 0 ||
	    !encode_data(rqstp, xdr, args))
		return false;
	if (!(args->flags & RPCLOAD_NO_END) && xdr_stream_encode_u32(xdr, rpcload_end(seed)) < 0)
		return false;
	/* The stream takes page after page by itself; the transport has to know how many. */
	rqstp->rq_next_page = xdr->page_ptr + 1;
	return true;
}

static int dispatch(struct svc_rqst *rqstp)
{
	const struct svc_procedure *proc = rqstp->rq_procinfo;
	__be32 *stat = rqstp->rq_accept_statp;

	if (!proc->pc_decode(rqstp, &rqstp->rq_arg_stream)) {
		*stat = rpc_garbage_args;
		return 1;
	}
	*stat = proc->pc_func(rqstp);
	if (*stat == rpc_success && !proc->pc_encode(rqstp, &rqstp->rq_res_stream))
		*stat = rpc_system_err;
	return 1;
}

/*
 * Everybody may call: this is a service for two guests that are alone in their network. sunrpc ends
 * connections if too many have peers that have not shown that they may call.
 */
static enum svc_auth_status authenticate(struct svc_rqst *rqstp)
{
	svc_xprt_set_valid(rqstp->rq_xprt);
	return SVC_OK;
}

static const struct svc_procedure procedures[] = {
	[RPCLOAD_NULL] = {
		.pc_func	= do_nothing,
		.pc_decode	= decode_nothing,
		.pc_encode	= encode_nothing,
		.pc_name	= "NULL",
	},
	[RPCLOAD_ECHO] = {
		.pc_func	= do_echo,
		.pc_decode	= decode_echo,
		.pc_encode	= encode_echo,
		.pc_argsize	= sizeof(struct echo_args),
		.pc_ressize	= sizeof(struct echo_res),
		.pc_name	= "ECHO",
	},
};

static const struct svc_version version = {
	.vs_vers	= RPCLOAD_VERSION,
	.vs_nproc	= ARRAY_SIZE(procedures),
	.vs_proc	= procedures,
	.vs_xdrsize	= sizeof(struct echo_args),
	.vs_hidden	= true,	/* not registered with rpcbind */
	.vs_dispatch	= dispatch,
};

static const struct svc_version *versions[] = {
	[RPCLOAD_VERSION] = &version,
};

static struct svc_program program = {
	.pg_prog		= RPCLOAD_PROGRAM,
	.pg_nvers		= ARRAY_SIZE(versions),
	.pg_vers		= versions,
	.pg_name		= "rpcload",
	.pg_class		= "rpcload",
	.pg_authenticate	= authenticate,
	.pg_init_request	= svc_generic_init_request,
	.pg_rpcbind_set		= svc_generic_rpcbind_set,
};

static int serve(void *data)
{
	struct svc_rqst *rqstp = data;

	svc_thread_init_status(rqstp, 0);
	while (!svc_thread_should_stop(rqstp))
		svc_recv(rqstp, 0);
	svc_exit_thread(rqstp);
	/* svc_set_num_threads() waits no longer: this code may be freed. */
	kthread_complete_and_exit(&thread_gone, 0);
}

static int count_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", atomic_read((atomic_t *)kp->arg));
}

static const struct kernel_param_ops count_ops = {
	.get = count_get,
};

module_param_cb(calls, &count_ops, &calls, 0444);
MODULE_PARM_DESC(calls, "calls of ECHO so far");
module_param_cb(bad_calls, &count_ops, &bad_calls, 0444);
MODULE_PARM_DESC(bad_calls, "of these, calls with a wrong argument");

static void stop(void)
{
	unsigned int left = serv->sv_nrthreads;

	svc_xprt_destroy_all(serv, &init_net, false);
	svc_set_num_threads(serv, 0, 0);
	while (left--)
		wait_for_completion(&thread_gone);
	svc_destroy(&serv);
	__free_page(blank);
}

static int __init rpcload_echo_init(void)
{
	int err;

	blank = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!blank)
		return -ENOMEM;
	/* Calls are as large as results, and both have a header. */
	serv = svc_create(&program, RPCLOAD_MAX_DATA + SZ_64K, serve);
	if (!serv) {
		__free_page(blank);
		return -ENOMEM;
	}
	err = svc_xprt_create(serv, "rdma", &init_net, PF_INET, port, SVC_SOCK_ANONYMOUS,
			      current_cred());
	if (err >= 0 && IS_ENABLED(CONFIG_IPV6))
		err = svc_xprt_create(serv, "rdma", &init_net, PF_INET6, port, SVC_SOCK_ANONYMOUS,
				      current_cred());
	if (err >= 0)
		err = svc_set_num_threads(serv, 0, threads);
	if (err < 0) {
		pr_info("no service at port %u: %pe\n", port, ERR_PTR(err));
		stop();
		return err;
	}
	pr_info("%u threads serve port %u\n", threads, port);
	return 0;
}

static void __exit rpcload_echo_exit(void)
{
	stop();
}

module_init(rpcload_echo_init);
module_exit(rpcload_echo_exit);
MODULE_DESCRIPTION("RPC service over RDMA for tests");
MODULE_LICENSE("GPL");
