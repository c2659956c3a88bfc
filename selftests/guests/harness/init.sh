#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Second program of a guest, started by /sbin/guest-init in the writable root. The harness puts it into the share as
# `init`, next to `hostname` and `agent.py`.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
read -r name </share/hostname
echo "$name" >/proc/sys/kernel/hostname
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mount -t debugfs debugfs /sys/kernel/debug
# A scan beside a test reports objects that are on their way from one owner to the next: the harness scans twice, when idle.
[ ! -e /sys/kernel/debug/kmemleak ] || echo scan=off >/sys/kernel/debug/kmemleak
mount -t tracefs tracefs /sys/kernel/tracing
rm -rf /lib/modules
ln -s /kernel/lib/modules /lib/modules
ip link set lo up
# The deadline servers of the scheduler, on an overcommitted host, run into a warning of their own (hrtimer_forward on a
# queued timer, from dl_task_timer). The guests do not need them.
for runtime in /sys/kernel/debug/sched/*_server/cpu*/runtime; do
	[ ! -e "$runtime" ] || echo 0 >"$runtime"
done
# KUnit and others say much at info level, and an emulated serial line takes seconds for it. The kernel log has it all the same.
echo 6 >/proc/sys/kernel/printk
[ ! -e /share/hung-task ] || cat /share/hung-task >/proc/sys/kernel/hung_task_timeout_secs
cp /share/modprobe.conf /etc/modprobe.d/harness.conf
exec python3 -I -S /share/agent.py
