# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Shared by the set-up scripts: the place of the cache, reports of progress and failures, and the making of cache
# entries, so that an interrupted build is never mistaken for a finished one.

set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SETUP=$TOP/selftests/setup
CACHE=${RPCRDMA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rpcrdma-rs}
# shellcheck disable=SC2034 # for the scripts that read this file
SUITE=trixie
# The first of these series that backports still carries is fetched; LINUX names another. packaging/check-kdir.sh has the
# oldest that the module builds for.
# shellcheck disable=SC2034
SERIES=${LINUX:-"7.3 7.2"}

mkdir -p "$CACHE/log" "$CACHE/times"

say() { printf '==> %s\n' "$*"; }

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# The key of a cache entry: a hash of everything it is made from.
key_of() { sha256sum | cut -c1-12; }

human() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

need_space() {
	local want=$1 what=$2 have
	have=$(df -Pk "$CACHE" | awk 'NR == 2 { print int($4 / 1048576) }')
	[ "$have" -ge "$want" ] ||
		die "$what needs $want GB free under $CACHE, which has $have GB: make room or set RPCRDMA_CACHE to another disk"
}

# stage NAME WHAT ESTIMATE-SECONDS PROGRESS-COMMAND -- COMMAND...
# Runs COMMAND with its output in a log, and reports its progress every few seconds, with the time that it took last time.
stage() {
	local name=$1 what=$2 estimate=$3 progress=$4 log=$CACHE/log/$1.log start now pid last rc=0
	shift 5
	last=$(cat "$CACHE/times/$name" 2>/dev/null || true)
	if [ -n "$last" ]; then
		say "$what (took $(human "$last") last time; log: $log)"
	else
		say "$what (expect about $(human "$estimate"); log: $log)"
	fi
	start=$(date +%s)
	"$@" >"$log" 2>&1 &
	pid=$!
	# shellcheck disable=SC2064 # the pid of now is the one to stop
	trap "kill $pid 2>/dev/null; wait $pid 2>/dev/null; exit 130" INT TERM
	local tick=0
	while kill -0 "$pid" 2>/dev/null; do
		sleep 1
		tick=$((tick + 1))
		[ $((tick % ${PROGRESS_EVERY:-20})) -eq 0 ] || continue
		now=$(date +%s)
		printf '    %s: %s %s\n' "$name" "$(human $((now - start)))" "$(eval "$progress" 2>/dev/null || true)"
	done
	wait "$pid" || rc=$?
	trap - INT TERM
	if [ "$rc" -ne 0 ]; then
		tail -n 12 "$log" | sed 's/^/    | /' >&2
		explain "$name" "$log"
	fi
	echo $(($(date +%s) - start)) >"$CACHE/times/$name"
}

# One line with the cure for a failed stage.
explain() {
	local name=$1 log=$2
	if grep -qE 'No space left on device' "$log"; then
		die "$name: the disk is full: make room under $CACHE or set RPCRDMA_CACHE to another disk, then run again"
	elif grep -qE 'Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Failed to fetch|Connection timed out|Network is unreachable' "$log"; then
		die "$name: a download failed: check that this machine reaches its Debian mirror, then run again (finished steps are kept)"
	fi
	die "$name failed: see $log"
}

# finish DIR FILE...: marks the cache entry DIR as complete, with the hashes of its key files.
finish() {
	local dir=$1
	shift
	(cd "$dir" && sha256sum "$@") >"$dir/.complete.new"
	sync -f "$dir"
	mv "$dir/.complete.new" "$dir/.complete"
}

# intact DIR: is the cache entry DIR complete and are its key files unchanged?
intact() {
	[ -s "$1/.complete" ] && (cd "$1" && sha256sum --check --quiet --status .complete 2>/dev/null)
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		say "root is needed to $AS_ROOT_WHY: sudo $*"
		sudo "$@"
	fi
}

# The tools that a kernel is built with: the suite and the packages before the first empty line.
toolchain_key() { { echo "$SUITE"; sed '/^$/,$d; s/#.*//' "$SETUP/packages"; } | key_of; }
tree_key() { cat "$SETUP/packages" "$SETUP/tree.sh" | key_of; }
tree_dir() { echo "$CACHE/tree-$(tree_key)"; }
