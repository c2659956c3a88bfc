#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a command in a root file system, in mount and PID namespaces that end with it. Usage: chroot.sh ROOT COMMAND...
# With BIND=DIRECTORY:PLACE, a directory of the outside is there at PLACE. Needs root.

set -euo pipefail

export ROOT=$1
shift
exec unshare --mount --pid --fork --kill-child bash -c '
	set -e
	mount --bind "$ROOT" "$ROOT"
	mount -t proc proc "$ROOT/proc"
	mount -t sysfs -o ro sys "$ROOT/sys"
	mount --rbind /dev "$ROOT/dev"
	mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
	mount -t tmpfs -o mode=755 tmpfs "$ROOT/run"
	[ -e "$ROOT/etc/resolv.conf" ] || touch "$ROOT/etc/resolv.conf"
	mount --bind /etc/resolv.conf "$ROOT/etc/resolv.conf"
	[ -z "${BIND:-}" ] || mount --bind "${BIND%%:*}" "$ROOT${BIND#*:}"
	exec chroot "$ROOT" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
' -- "$@"
