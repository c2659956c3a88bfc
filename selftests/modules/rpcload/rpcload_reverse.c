// SPDX-License-Identifier: GPL-2.0
/*
 * The reverse service of rpcload.ko: it serves calls that come from the server, over the connection
 * that the client has made.
 *
 * It is brought up and taken down as NFS does with its callback service (fs/nfs/nfs4client.c,
 * fs/nfs/callback.c), so that a transport sees the same here. rpcload.h describes the program.
 */

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sunrpc/bc_xprt.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/wait.h>

#include "rpcload_client.h"

#define SLOTS	16	/* as NFS41_BC_MIN_CALLBACKS */

/* Protected by the lock of the commands. */
static struct svc_serv *serv;

/* Completed by each thread as it leaves the code of this module. */
static DECLARE_COMPLETION(thread_gone);

static bool stalled;
static DECLARE_WAIT_QUEUE_HEAD(stall_end);
static atomic_t calls = ATOMIC_INIT(0);

static int calls_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&calls));
}

static const struct kernel_param_ops calls_ops = {
	.get = calls_get,
};

module_param_cb(reverse_calls, &calls_ops, NULL, 0444);
MODULE_PARM_DESC(reverse_calls, "reverse calls so far");

struct reply_args {
	u32 len;
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

static bool decode_reply(struct svc_rqst *rqstp, struct xdr_stream *xdr)
{
	struct reply_args *args = rqstp->rq_argp;

	return xdr_stream_decode_u32(xdr, &args->len) >= 0 && args->len <= RPCLOAD_MAX_REVERSE;
}

static bool encode_reply(struct svc_rqst *rqstp, struct xdr_stream *xdr)
{
	const struct reply_args *args = rqstp->rq_argp;
	u32 len = args->len;
	u8 *to;

	if (xdr_stream_encode_u32(xdr, len) < 0)
		return false;
	to = (u8 *)xdr_reserve_space(xdr, len);
	if (!to)
		return false;
	rpcload_fill(to, len, len, 0);
	memset(to + len, 0, xdr_pad_size(len));
	return true;
}

static __be32 do_stall(struct svc_rqst *rqstp)
{
	wait_event_idle(stall_end, !READ_ONCE(stalled));
	return rpc_success;
}

static int dispatch(struct svc_rqst *rqstp)
{
	const struct svc_procedure *proc = rqstp->rq_procinfo;
	__be32 *stat = rqstp->rq_accept_statp;

	atomic_inc(&calls);
	if (!proc->pc_decode(rqstp, &rqstp->rq_arg_stream)) {
		*stat = rpc_garbage_args;
		return 1;
	}
	*stat = proc->pc_func(rqstp);
	if (*stat == rpc_success && !proc->pc_encode(rqstp, &rqstp->rq_res_stream))
		*stat = rpc_system_err;
	return 1;
}

/* The client has chosen to connect to this server. */
static enum svc_auth_status authenticate(struct svc_rqst *rqstp)
{
	return SVC_OK;
}

static const struct svc_procedure procedures[] = {
	[RPCLOAD_REVERSE_NULL] = {
		.pc_func	= do_nothing,
		.pc_decode	= decode_nothing,
		.pc_encode	= encode_nothing,
		.pc_name	= "NULL",
	},
	[RPCLOAD_REVERSE_REPLY] = {
		.pc_func	= do_nothing,
		.pc_decode	= decode_reply,
		.pc_encode	= encode_reply,
		.pc_argsize	= sizeof(struct reply_args),
		.pc_name	= "REPLY",
	},
	[RPCLOAD_REVERSE_STALL] = {
		.pc_func	= do_stall,
		.pc_decode	= decode_nothing,
		.pc_encode	= encode_nothing,
		.pc_name	= "STALL",
	},
};

static const struct svc_version version = {
	.vs_vers	= RPCLOAD_REVERSE_VERSION,
	.vs_nproc	= ARRAY_SIZE(procedures),
	.vs_proc	= procedures,
	.vs_xdrsize	= sizeof(struct reply_args),
	.vs_hidden	= true,	/* rpcbind does not know of it */
	.vs_dispatch	= dispatch,
};

static const struct svc_version *versions[] = {
	[RPCLOAD_REVERSE_VERSION] = &version,
};

static struct svc_program program = {
	.pg_prog		= RPCLOAD_REVERSE_PROGRAM,
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

/* As nfs4_init_callback() does for minor versions above 0. */
static int callback_up(struct rpc_xprt *xprt, u32 threads)
{
	int err = xprt_setup_backchannel(xprt, SLOTS);

	if (err < 0)
		return err;
	err = svc_bind(serv, xprt->xprt_net);
	if (err < 0)
		return err;
	set_bc_enabled(serv);
	xprt->bc_serv = serv;
	return svc_set_num_threads(serv, 0, threads);
}

/* As nfs_callback_down(). */
static void callback_down(struct rpc_xprt *xprt)
{
	unsigned int left = serv->sv_nrthreads;

	xprt_svc_shutdown_bc(xprt);
	svc_xprt_destroy_all(serv, xprt->xprt_net, false);
	svc_set_num_threads(serv, 0, 0);
	while (left--)
		wait_for_completion(&thread_gone);
	xprt_svc_destroy_nullify_bc(xprt, &serv);
}

/* Starts to serve the calls that come over the transport. */
int rpcload_reverse_start(struct rpc_xprt *xprt, u32 threads)
{
	int err;

	if (!xprt->ops->bc_setup)
		return -EPROTONOSUPPORT;
	serv = svc_create(&program, PAGE_SIZE, serve);
	if (!serv)
		return -ENOMEM;
	err = callback_up(xprt, threads);
	if (err < 0)
		rpcload_reverse_stop(xprt);
	return err;
}

/* Ends the service, if any. */
void rpcload_reverse_stop(struct rpc_xprt *xprt)
{
	rpcload_reverse_stall(false);
	if (!serv)
		return;
	xprt_destroy_backchannel(xprt, SLOTS);
	callback_down(xprt);
}

/* Holds back the replies to STALL, or releases them. */
void rpcload_reverse_stall(bool stall)
{
	WRITE_ONCE(stalled, stall);
	wake_up_all(&stall_end);
}

bool rpcload_reverse_stalls(void)
{
	return READ_ONCE(stalled);
}
