#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Puts one defect after the other into a copy of the sources, and runs the tests that have to find it. Usage:
# run.sh [--kernel KERNEL] [--only host|guests] [--soak MINUTES] [--part K/N] [PATTERN...], where a pattern is part of a
# defect's name or of the IDs that it breaks, --only chooses those that tests of that kind have to find, and with --soak a
# soak of so many minutes has to find them. The last line is 'N passed, N failed'; a defect passes if a test fails because
# of it. VM tests run in native guests, and on Debian's kernel where these cannot run them, unless a kernel is named.
# `make setup-native` must have been run.
#
# As many run at once as the machine has processors, or LANES: the compiler of Rust uses one. --part runs the Kth of N parts
# alone.

set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 seen=0
chosen='' only='' soak='' part='' options=()
while :; do
	case ${1:-} in
	--kernel) chosen=$2 ;;
	--only) only=$2 ;;
	--soak) soak=$2 ;;
	--part) part=$2 ;;
	*) break ;;
	esac
	options+=("$1" "$2")
	shift 2
done

# Runs the parts, and adds up their results.
lanes=${LANES:-$(nproc)}
if [ -z "$part" ] && [ "$lanes" -gt 1 ]; then
	parts=()
	exec 3> >(sed -u '/^[0-9]* passed, /d' | tee "$log")
	shown=$!
	trap 'kill "${parts[@]}" 2>/dev/null; rm -f "$log"' EXIT
	trap 'exit 143' INT TERM HUP
	for ((at = 1; at <= lanes; at++)); do
		"$0" "${options[@]}" --part "$at/$lanes" "$@" >&3 &
		parts+=($!)
	done
	for at in "${parts[@]}"; do
		wait "$at" || failed=1
	done
	exec 3>&-
	wait "$shown"
	echo "$(grep -c '^ok  ' "$log") passed, $(grep -c '^not ok ' "$log") failed"
	exit "$failed"
fi
tree=out/mutations/tree${part:+-${part/\//-of-}}

mutations() {
	selftests/setup/enter.sh env PYTHONPATH=selftests PYTHONDONTWRITEBYTECODE=1 python3 -m checks.mutations "$@"
}

# The copy keeps its build, but for the files that a defect was in.
fresh() {
	mkdir -p "$tree"
	rm -rf "$tree/src" "$tree/selftests"
	git ls-files -z .config.fragment Kbuild Makefile src include selftests packaging Documentation | xargs -0 cp -a --parents -t "$tree"
}

# host_tests LEVEL FILTER...: with optimisation a build takes longer than the unit tests. cargo goes by the times of files, so
# that each copy of the sources needs a directory of its own for what it builds. The tests end as soon as one has failed.
host_tests() {
	local level=$1
	shift
	(exec setsid "$tree/selftests/setup/enter.sh" env CARGO_INCREMENTAL=1 CARGO_PROFILE_TEST_OPT_LEVEL="$level" cargo test --locked \
		--no-fail-fast --manifest-path selftests/host/Cargo.toml --target-dir "/repo/$tree-target" -- "$@") >>"$log" 2>&1 &
	local pid=$!
	# SIGTERM has no effect on the first process of a namespace.
	if grep -q -m 1 -E '^test .* FAILED$' < <(exec tail -n +1 --pid="$pid" -f "$log"); then
		kill -KILL -- "-$pid"
	fi 2>/dev/null
	wait "$pid" 2>/dev/null
}

# Runs the test that must fail. A build that fails finds nothing: only the result of a test counts.
find_it() {
	local kernel=${chosen:-$1}
	: >"$log"
	if [ -n "$soak" ]; then
		KEEP=n "$tree/selftests/setup/build.sh" native >"$log" 2>&1 &&
			"$tree/selftests/soak/run.sh" --server ours --first-finding --minutes "$soak" >>"$log" 2>&1
	elif [ -z "$2" ]; then
		# The unit tests take a second, the properties and the walks, in files of words, take minutes.
		host_tests 0 --skip words:: --skip properties:: module:: && host_tests 1
	else
		KEEP=n "$tree/selftests/setup/build.sh" "$kernel" >"$log" 2>&1 &&
			"$tree/selftests/guests/run.sh" test --kernel "$kernel" --first-failure --stretch 2 "$2" >>"$log" 2>&1
	fi
}

while IFS=$'\t' read -r number title kernel pattern <&3; do
	case $only-$pattern in
	host-?* | guests-) continue ;;
	esac
	seen=$((seen + 1))
	[ -z "$part" ] || [ $((seen % ${part#*/})) -eq $((${part%/*} % ${part#*/})) ] || continue
	fresh
	mutations --apply "$number" "$tree/src" || exit 1
	SECONDS=0
	find_it "$kernel" "$pattern" </dev/null
	found=$(grep -m 1 -E '^not ok |^test .* FAILED$' "$log")
	if [ -n "$found" ]; then
		why=$(grep -A 40 -F "$found" "$log" | grep -m 1 -oE '(AssertionError|CommandFailed|GuestTimeout|GuestError|Overrun|Late|panicked).*')
		echo "ok     $title ($SECONDS s): ${found#not ok }${why:+: $why}"
		passed=$((passed + 1))
	else
		echo "not ok $title: not found by ${soak:+a soak of $soak minutes instead of }${pattern:-the tests of this machine} ($SECONDS s)"
		tail -n 15 "$log" | sed 's/^/    /'
		failed=$((failed + 1))
	fi
done 3< <(mutations --list "$@")
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
