#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs tests on several pairs of guests at once, which share them file by file: lanes.sh N ARGUMENT..., with the arguments
# of run.sh. A pair of native guests waits half of its time, so that two processors serve more than one. The last line is
# 'N passed, N failed', of all of them.

set -uo pipefail

run=$(dirname "${BASH_SOURCE[0]}")/run.sh
out=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/out
lanes=$1
shift
[ "$lanes" -gt 1 ] || exec "$run" "$@"

# The lanes see the repository elsewhere, by its name in the tool tree.
mkdir -p "$out"
share=$(mktemp -d "$out/lanes.XXXXXX")
: >"$share/taken"
# shellcheck disable=SC2046 # numbers
trap 'kill $(cat "$share"/pid.*) 2>/dev/null; wait; rm -rf "$share"; exit 143' INT TERM HUP
one() {
	local lane=$1
	shift
	"$run" "$@" --share "/repo/out/${share##*/}/taken" 2>&1 &
	echo $! >"$share/pid.$lane"
	wait
}
# Each result is of its lane alone.
show() {
	local line
	while IFS= read -r line; do
		if [[ $line =~ ^[0-9]+\ passed,\ [0-9]+\ failed$ ]]; then
			echo "$line" >"$1"
		else
			echo "$line"
		fi
	done
}
for ((lane = 1; lane <= lanes; lane++)); do
	one "$lane" "$@" | show "$share/$lane" &
done
wait

passed=0 failed=0
for ((lane = 1; lane <= lanes; lane++)); do
	# One that has no result has failed as a whole.
	line=$(cat "$share/$lane" 2>/dev/null || echo "0 passed, 1 failed")
	[[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]
	passed=$((passed + BASH_REMATCH[1]))
	failed=$((failed + BASH_REMATCH[2]))
done
rm -rf "$share"
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
