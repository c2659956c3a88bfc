// SPDX-License-Identifier: GPL-2.0
/*
 * Holds up reverse calls, for tests: a transport that calls xprt_enqueue_bc_request() does not get
 * further until the last reference to its rpc_xprt is gone, or two seconds have passed. So a test
 * can have a reverse call meet the end of its transport, a matter of nanoseconds otherwise. It also
 * has checks of verifiers fail, which nothing else does with a server that is right.
 *
 * In /sys/module/hold/parameters:
 *	holding		1 while a call is held
 *	held		calls that have been held
 *	last		of these, calls after which the transport had at most one reference left: the
 *			call's own, if it has one
 *	verifier	checks of a verifier of RPCSEC_GSS that are still to fail, if auth_rpcgss was
 *			loaded before this
 *
 * It needs a kernel with CONFIG_KPROBES, and a second processor, since it keeps one busy.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#ifdef CONFIG_KPROBES

#include <linux/kprobes.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/processor.h>
#include <linux/ptrace.h>
#include <linux/sunrpc/gss_err.h>
#include <linux/sunrpc/xprt.h>

#define LIMIT_NS	(2 * NSEC_PER_SEC)

static int holding;
module_param(holding, int, 0400);
MODULE_PARM_DESC(holding, "1 while a call is held");

static int held;
module_param(held, int, 0400);
MODULE_PARM_DESC(held, "calls that have been held");

static int last;
module_param(last, int, 0400);
MODULE_PARM_DESC(last, "of these, calls that have met the end of their transport");

static int verifier;
module_param(verifier, int, 0600);
MODULE_PARM_DESC(verifier, "checks of a verifier that are still to fail");

/* The memory stays: a transport waits for the end of its completions before it is freed. */
static int hold(struct kprobe *probe, struct pt_regs *regs)
{
	struct rpc_rqst *rqst = (struct rpc_rqst *)regs_get_kernel_argument(regs, 0);
	struct kref *kref = &rqst->rq_xprt->kref;
	u64 start = ktime_get_ns();

	WRITE_ONCE(holding, 1);
	while (kref_read(kref) && ktime_get_ns() - start < LIMIT_NS)
		cpu_relax();
	WRITE_ONCE(holding, 0);
	WRITE_ONCE(held, held + 1);
	if (kref_read(kref) <= 1)
		WRITE_ONCE(last, last + 1);
	return 0;
}

static struct kprobe probe = {
	.symbol_name	= "xprt_enqueue_bc_request",
	.pre_handler	= hold,
};

/* gss_verify_mic() returns: not with GSS_S_COMPLETE, if that is wanted. */
static int fail_verifier(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	int left = READ_ONCE(verifier);

	while (left > 0 && !try_cmpxchg(&verifier, &left, left - 1))
		;
	if (left > 0)
		regs_set_return_value(regs, GSS_S_FAILURE);
	return 0;
}

static struct kretprobe verify_mic = {
	.kp.symbol_name	= "gss_verify_mic",
	.handler	= fail_verifier,
};

static bool verifies;

static int __init hold_init(void)
{
	int ret = register_kprobe(&probe);

	if (ret)
		return ret;
	verifies = !register_kretprobe(&verify_mic);
	return 0;
}

static void __exit hold_exit(void)
{
	if (verifies)
		unregister_kretprobe(&verify_mic);
	unregister_kprobe(&probe);
}

#else /* CONFIG_KPROBES */

static int __init hold_init(void)
{
	return -EOPNOTSUPP;
}

static void __exit hold_exit(void)
{
}

#endif /* CONFIG_KPROBES */

module_init(hold_init);
module_exit(hold_exit);
MODULE_DESCRIPTION("Holds up reverse calls for tests");
MODULE_LICENSE("GPL");
