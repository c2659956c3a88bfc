#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a command inside the tool-and-guest tree (or another, named by TREE), with this repository at /repo and the cache
# at /cache, in a mount (and, with NET=1, network) namespace of its own that ends with the command. Needs no root:
# without it, a user namespace gives the rights.

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tree=${TREE:-$(tree_dir)}
[ -e "$tree/.complete" ] || die "the tool tree is not there yet: run 'make setup'"

flags=(--mount --pid --fork --kill-child)
[ "$(id -u)" -eq 0 ] || flags+=(--map-root-user)
[ "${NET:-0}" = 0 ] || flags+=(--net)

export TREE="$tree" TOP CACHE
exec unshare "${flags[@]}" bash -c '
	set -e
	mount --rbind "$TREE" "$TREE"
	mount --bind "$TREE" "$TREE/guestroot"
	mount -t proc proc "$TREE/proc"
	mount --rbind /sys "$TREE/sys"
	mount --rbind /dev "$TREE/dev"
	mount -t tmpfs -o mode=1777 tmpfs "$TREE/tmp"
	mount --bind "$TOP" "$TREE/repo"
	mount --bind "$CACHE" "$TREE/cache"
	mount --bind /etc/resolv.conf "$TREE/etc/resolv.conf" 2>/dev/null || true
	for f in /etc/ssl/certs/ca-certificates.crt; do
		[ ! -e "$f" ] || mount --bind "$f" "$TREE$f" 2>/dev/null || true
	done
	cd "$TREE"
	exec chroot "$TREE" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/cache/home LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" ${CI:+CI="$CI"} \
		${RPCRDMA_ACCEL:+RPCRDMA_ACCEL="$RPCRDMA_ACCEL"} ${CARGO_NET_OFFLINE:+CARGO_NET_OFFLINE=1} \
		bash -c '\''cd /repo && exec "$@"'\'' -- "$@"
' -- "$@"
