/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of rpcload.ko: commands (rpcload_main.c) make runs (rpcload_run.c) of calls
 * (rpcload_call.c), by one client or a crowd (rpcload_crowd.c), and have calls of the server served
 * (rpcload_reverse.c).
 */
#ifndef RPCLOAD_CLIENT_H
#define RPCLOAD_CLIENT_H

#include <linux/sunrpc/clnt.h>

#include "rpcload.h"

#define RPCLOAD_MAX_CALL	SZ_2M	/* bytes of data in a call, whether or not it can be sent */
#define RPCLOAD_MAX_KVEC	SZ_64K	/* bytes of data in a head or a tail */
#define RPCLOAD_MAX_THREADS	16	/* of the reverse service */

enum rpcload_place { RPCLOAD_HEAD, RPCLOAD_PAGES, RPCLOAD_TAIL, RPCLOAD_PARTS };
enum rpcload_memory { RPCLOAD_ANY, RPCLOAD_CONTIGUOUS, RPCLOAD_SCATTERED };
enum rpcload_flip { RPCLOAD_FLIP_NONE, RPCLOAD_FLIP_CALL, RPCLOAD_FLIP_REPLY };

/* The shape of the data of a message in its buffer. */
struct rpcload_shape {
	u32 len;
	u32 in;		/* enum rpcload_place */
	u32 ddp;
	u32 base;	/* where in its page the data begins */
	u32 room;	/* replies: room for data, in bytes */
};

/* The bytes of data in each part of the buffer. */
struct rpcload_split {
	u32 head;
	u32 pages;
	u32 tail;
};

/* The parameters of a run: the words of its command. */
struct rpcload_params {
	u32 proc;
	u32 count;
	u32 depth;
	u32 verify;
	u32 seed;
	u32 flip;	/* enum rpcload_flip */
	u32 vary;
	u32 end;
	u32 answer;
	u32 memory;	/* enum rpcload_memory */
	struct rpcload_shape call;
	struct rpcload_shape reply;
};

/* A call: all that is in here belongs to one thread. */
struct rpcload_call {
	const struct rpcload_params *params;
	struct page **call_pages;
	struct page **reply_pages;

	/* Of the call under way. */
	struct rpc_procinfo proc;
	struct rpcload_shape call;
	struct rpcload_shape reply;
	struct rpcload_split call_split;
	struct rpcload_split reply_split;
	u32 seed;
	u32 flags;

	/* The outcome. */
	u32 status;	/* from the server */
	bool wrong;	/* the reply differs from the expected one */
};

/* The outcome of a run. */
struct rpcload_result {
	u32 calls;
	u32 errors;
	int error;	/* of the first that failed */
	u32 call_mismatches;
	u32 reply_mismatches;
	u64 total_ns;
	u64 min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns;
};

extern const struct rpc_procinfo rpcload_null_proc;
extern const struct rpc_procinfo rpcload_unanswered_proc;
extern const struct rpc_program rpcload_echo_program;
extern const struct rpc_program rpcload_nfs_program;

struct rpcload_split rpcload_split(const struct rpcload_shape *shape, u32 len);
u32 rpcload_pages_of(const struct rpcload_shape *shape, u32 vary);
bool rpcload_call_init(struct rpcload_call *call, const struct rpcload_params *params);
void rpcload_call_exit(struct rpcload_call *call);
void rpcload_call_prepare(struct rpcload_call *call, u32 number);

int rpcload_run(struct rpc_clnt *clnt, const struct rpcload_params *params,
		struct rpcload_result *result);

int rpcload_crowd_open(const struct rpc_create_args *args, u32 count);
void rpcload_crowd_close(void);
u32 rpcload_crowd_size(void);
int rpcload_crowd_run(const struct rpcload_params *params, struct rpcload_result *result);

int rpcload_reverse_start(struct rpc_xprt *xprt, u32 threads);
void rpcload_reverse_stop(struct rpc_xprt *xprt);
void rpcload_reverse_stall(bool stall);
bool rpcload_reverse_stalls(void);

#endif /* RPCLOAD_CLIENT_H */
