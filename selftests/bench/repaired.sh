#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the in-tree client once more, without a slip: it means to signal one Send in many, but once it has registered
# memory its count makes it signal every second one, or every one. Usage: repaired.sh test|stock

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../setup/lib.sh"

case "$1" in
stock) kernel=$("$SETUP/setup.sh" --path kernel-stock)/kdir ;;
*) kernel=$("$SETUP/setup.sh" --path kernel) ;;
esac
mapfile -t tools < <("$SETUP/enter.sh" packaging/kernel-tools.sh "$kernel")

out=out/bench/repaired
"$SETUP/enter.sh" bash -euo pipefail -c '
	source=$1 out=$2 kernel=$3
	shift 3
	rm -rf "$out"
	cp -r "$source/net/sunrpc/xprtrdma" "$out"
	# The Sends until the next one that is signalled are as many as at first.
	slip="num_wrs - ep->re_send_count"
	[ "$(grep -c "$slip" "$out/frwr_ops.c")" = 1 ] || { echo "the in-tree client is not as it was: $slip" >&2; exit 1; }
	sed -i "s/$slip/ep->re_send_batch/" "$out/frwr_ops.c"
	make -s -j"$(nproc)" -C "$kernel" M="/repo/$out" CONFIG_SUNRPC_XPRT_RDMA=m "$@" modules
' -- "$("$SETUP/setup.sh" --path linux)" "$out" "$kernel" "${tools[@]}"
