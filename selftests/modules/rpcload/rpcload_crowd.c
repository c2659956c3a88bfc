// SPDX-License-Identifier: GPL-2.0
/*
 * Many clients of one service, each with a connection of its own.
 *
 * The caller lets no two of these functions run at a time.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "rpcload_client.h"

static struct rpc_clnt **clients;
static u32 client_count;

/* Adds clients. After an error fewer exist; the clients already made stay. */
int rpcload_crowd_open(const struct rpc_create_args *args, u32 count)
{
	struct rpc_clnt **more;

	more = kvrealloc(clients, array_size(client_count + count, sizeof(*more)), GFP_KERNEL);
	if (!more)
		return -ENOMEM;
	clients = more;
	while (count--) {
		struct rpc_create_args each = *args;
		struct rpc_clnt *clnt = rpc_create(&each);

		if (IS_ERR(clnt))
			return PTR_ERR(clnt);
		clients[client_count++] = clnt;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

void rpcload_crowd_close(void)
{
	while (client_count)
		rpc_shutdown_client(clients[--client_count]);
	kvfree(clients);
	clients = NULL;
}

u32 rpcload_crowd_size(void)
{
	return client_count;
}

/* Makes a run over one client after another. Reports the times of the last. */
int rpcload_crowd_run(const struct rpcload_params *params, struct rpcload_result *result)
{
	struct rpcload_result all = {};
	int err = 0;
	u32 i;

	for (i = 0; i < client_count && !err; i++) {
		memset(result, 0, sizeof(*result));
		err = rpcload_run(clients[i], params, result);
		all.calls += result->calls;
		all.errors += result->errors;
		all.error = all.error ?: result->error;
		all.call_mismatches += result->call_mismatches;
		all.reply_mismatches += result->reply_mismatches;
	}
	result->calls = all.calls;
	result->errors = all.errors;
	result->error = all.error;
	result->call_mismatches = all.call_mismatches;
	result->reply_mismatches = all.reply_mismatches;
	return err;
}
