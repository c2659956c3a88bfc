#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the VM test harness inside the tool tree, in a network namespace of its own:
#
#   run.sh test [PATTERN...] | kunit | demo | list | boots      (run.sh COMMAND --help lists the options)
#
# The kernel is chosen on the outside, where the cache is; the harness gets its path.

set -euo pipefail

selftests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
setup=$selftests/setup

# The comparison stays on one kernel, so that its figures can be compared, too.
kernel=${KERNEL:-stock}
[ "${PACKAGE:-}" != bench ] || kernel="test"
keep=
previous=
for argument; do
	case "$previous $argument" in
	"--kernel "*) kernel=$argument ;;
	*" --kernel="*) kernel=${argument#*=} ;;
	esac
	case "$previous" in
	--keep-logs) keep=$argument ;;
	esac
	previous=$argument
done
path() {
	case "$1" in
	stock) "$setup/setup.sh" --path kernel-stock ;;
	debug | native | native-debug) "$setup/setup.sh" --path "kernel-$1" ;;
	series-*) echo "/cache/kernel-$1" ;;
	*) "$setup/setup.sh" --path kernel ;;
	esac
}
# The module under test is in the client; a server on the debug kernel would only make it wait. That of another release
# (setup/series.sh) may lack a server.
server=$kernel
if [ "$server" = debug ]; then
	server=${KERNEL:-stock}
	[ "$server" != native ] || server=stock
fi
[ "$server" != native-debug ] || server=native
[[ $server != series-* ]] || server=stock
linux=$("$setup/setup.sh" --path linux)

# Inside, nothing outlives the run but the cache: logs that are to be kept land there first.
logs=
if [ -n "$keep" ]; then
	cache=$(dirname "$("$setup/setup.sh" --path tree)")
	logs=$(mktemp -d "$cache/vm-logs.XXXXXX")
	trap 'mkdir -p "$keep"; cp -r "$logs/." "$keep/"; rm -rf "$logs"' EXIT
fi

NET=1 "$setup/enter.sh" env PYTHONPATH=/repo/selftests PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
	RPCRDMA_VARIANT="$kernel" RPCRDMA_KERNEL="$(path "$kernel")" \
	RPCRDMA_NATIVE_KERNEL="$(path native)" RPCRDMA_SERVER_VARIANT="$server" RPCRDMA_SERVER_KERNEL="$(path "$server")" \
	RPCRDMA_LINUX="$linux" ${keep:+RPCRDMA_LOGS="/cache/${logs##*/}"} \
	python3 -m "${PACKAGE:-guests.harness}" "$@" <&0 &
pid=$!

# unshare ignores the signals itself, and the harness is its child: pass them on, and make an end of it when the
# harness does not. With unshare its whole PID namespace ends, and with that its network namespace.
# shellcheck disable=SC2317 # reached by the traps below
pass_on() {
	trap '' INT TERM HUP
	local child
	child=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null || true)
	# shellcheck disable=SC2086 # at most one number
	[ -z "$child" ] || kill -TERM $child 2>/dev/null || true
	timeout 10 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" || true
	exit "$1"
}
trap 'pass_on 130' INT
trap 'pass_on 143' TERM HUP

rc=0
wait "$pid" || rc=$?
exit "$rc"
