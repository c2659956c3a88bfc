// SPDX-License-Identifier: GPL-2.0
/*
 * Runs of rpcload.ko: many calls, some at a time, each of them timed.
 *
 * Each of the calls at a time is made by a thread of its own, one after the other, and the threads
 * take the number of their next call from one counter: all of them have calls outstanding until none is
 * left to start, a call is timed where it is made, and no queue of ours comes in between. All
 * memory is there before the first call.
 */

#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "rpcload_client.h"

struct run;

struct worker {
	struct run *run;
	struct task_struct *task;
	struct rpcload_call call;
};

struct run {
	const struct rpcload_params *params;
	struct rpc_clnt *clnt;
	struct worker *workers;
	u64 *ns;	/* of each call; 0 if it failed or was not made */
	u64 end_ns;
	bool stop;
	atomic_t next;
	atomic_t active;
	atomic_t calls;
	atomic_t errors;
	atomic_t first_error;
	atomic_t call_mismatches;
	atomic_t reply_mismatches;
	struct completion start;
	struct completion done;
};

static void one_call(struct run *run, struct rpcload_call *call, u32 number)
{
	struct rpc_message msg = {
		.rpc_proc = run->params->answer ? &rpcload_null_proc : &rpcload_unanswered_proc,
		.rpc_argp = call,
		.rpc_resp = call,
	};
	u64 start;
	int err;

	if (run->params->proc == RPCLOAD_ECHO) {
		rpcload_call_prepare(call, number);
		msg.rpc_proc = &call->proc;
	}
	start = ktime_get_ns();
	err = rpc_call_sync(run->clnt, &msg, 0);
	if (err) {
		atomic_inc(&run->errors);
		atomic_cmpxchg(&run->first_error, 0, err);
	} else {
		run->ns[number] = max(ktime_get_ns() - start, 1);
	}
	atomic_inc(&run->calls);
	if (call->status)
		atomic_inc(&run->call_mismatches);
	if (call->wrong)
		atomic_inc(&run->reply_mismatches);
}

static int work(void *data)
{
	struct worker *worker = data;
	struct run *run = worker->run;

	/* So that a run can be abandoned while the server does not reply. */
	allow_signal(SIGKILL);
	wait_for_completion(&run->start);
	while (!READ_ONCE(run->stop)) {
		u32 number = atomic_fetch_inc(&run->next);

		if (number >= run->params->count)
			break;
		one_call(run, &worker->call, number);
		cond_resched();
	}
	if (atomic_dec_and_test(&run->active)) {
		run->end_ns = ktime_get_ns();
		complete(&run->done);
	}
	return 0;
}

static int set_up(struct run *run)
{
	u32 i;

	init_completion(&run->start);
	init_completion(&run->done);
	run->ns = kvzalloc_objs(u64, run->params->count);
	run->workers = kvzalloc_objs(struct worker, run->params->depth);
	if (!run->ns || !run->workers)
		return -ENOMEM;
	for (i = 0; i < run->params->depth; i++) {
		struct worker *worker = &run->workers[i];
		struct task_struct *task;

		worker->run = run;
		if (!rpcload_call_init(&worker->call, run->params))
			return -ENOMEM;
		task = kthread_create(work, worker, "rpcload/%u", i);
		if (IS_ERR(task))
			return PTR_ERR(task);
		worker->task = get_task_struct(task);
	}
	return 0;
}

static void tear_down(struct run *run)
{
	u32 i;

	for (i = 0; run->workers && i < run->params->depth; i++) {
		struct worker *worker = &run->workers[i];

		/* A thread that has finished may still be on its way out of this module. */
		if (worker->task)
			kthread_stop_put(worker->task);
		rpcload_call_exit(&worker->call);
	}
	kvfree(run->workers);
	kvfree(run->ns);
}

/* Makes the calls. Returns -EINTR if a signal ended that. */
static int make_calls(struct run *run, u64 *total_ns)
{
	u64 start;
	int err;
	u32 i;

	atomic_set(&run->active, run->params->depth);
	for (i = 0; i < run->params->depth; i++)
		wake_up_process(run->workers[i].task);
	start = ktime_get_ns();
	complete_all(&run->start);
	err = wait_for_completion_interruptible(&run->done);
	if (err) {
		WRITE_ONCE(run->stop, true);
		for (i = 0; i < run->params->depth; i++)
			send_sig(SIGKILL, run->workers[i].task, 1);
		wait_for_completion(&run->done);
	}
	*total_ns = run->end_ns - start;
	return err ? -EINTR : 0;
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static void sum_up(struct run *run, struct rpcload_result *result)
{
	u64 *ns = run->ns;
	u32 i, n = 0;

	result->calls = atomic_read(&run->calls);
	result->errors = atomic_read(&run->errors);
	result->error = atomic_read(&run->first_error);
	result->call_mismatches = atomic_read(&run->call_mismatches);
	result->reply_mismatches = atomic_read(&run->reply_mismatches);

	for (i = 0; i < run->params->count; i++)
		if (ns[i])
			ns[n++] = ns[i];
	if (!n)
		return;
	sort_nonatomic(ns, n, sizeof(*ns), compare, NULL);
	result->min_ns = ns[0];
	result->p50_ns = ns[(n - 1) / 2];
	result->p90_ns = ns[(u64)(n - 1) * 90 / 100];
	result->p99_ns = ns[(u64)(n - 1) * 99 / 100];
	result->p999_ns = ns[(u64)(n - 1) * 999 / 1000];
	result->max_ns = ns[n - 1];
}

/*
 * Makes the calls that params describe. Returns 0 if the result is worth looking at, although calls
 * may have failed; all errors but EINTR leave it alone.
 */
int rpcload_run(struct rpc_clnt *clnt, const struct rpcload_params *params,
		struct rpcload_result *result)
{
	struct run run = { .params = params, .clnt = clnt };
	int err = set_up(&run);

	if (!err) {
		err = make_calls(&run, &result->total_ns);
		sum_up(&run, result);
	}
	tear_down(&run);
	return err;
}
