// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps the processor of a User-mode Linux guest from going idle, for measurements by the clock.
 *
 * An idle guest of Linux 7.3 can miss the signal that is its interrupt. It turns interrupts off,
 * looks for work, and waits for a signal. A SIGIO between the first and the last of these is noted
 * by its handler and does not end the wait, which then takes until the next tick: milliseconds,
 * where a call takes a sixth of one. How often that happens depends on when messages arrive, and
 * so on what else the processor has just done.
 *
 * The thread is to have the policy SCHED_IDLE, so that all others preempt it. Modules cannot set
 * that; `pid` in /sys/module/spin/parameters is for chrt.
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pid.h>
#include <linux/sched.h>

static struct task_struct *thread;

static int pid;
module_param(pid, int, 0400);
MODULE_PARM_DESC(pid, "the thread that spins");

static int spin(void *unused)
{
	while (!kthread_should_stop()) {
		cpu_relax();
		cond_resched();
	}
	return 0;
}

static int __init spin_init(void)
{
	thread = kthread_run(spin, NULL, "spin");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	pid = task_pid_nr(thread);
	return 0;
}

static void __exit spin_exit(void)
{
	kthread_stop(thread);
}

module_init(spin_init);
module_exit(spin_exit);

MODULE_DESCRIPTION("Keeps a processor from going idle");
MODULE_LICENSE("GPL");
