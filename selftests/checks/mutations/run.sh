#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Puts one defect after the other into a copy of the sources, and runs the tests that have to find it. Usage:
# run.sh [--kernel KERNEL] [--only host|guests] [PATTERN...], where a pattern is part of a defect's name or of the IDs that it
# breaks, and --only chooses those that tests of that kind have to find. The last line is 'N passed, N failed'; a defect passes
# if a test fails because of it. VM tests run in native guests, and on Debian's kernel where these cannot run them, unless a
# kernel is named. `make setup-native` must have been run.

set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
tree=out/mutations/tree
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0
chosen='' only=''
while :; do
	case ${1:-} in
	--kernel) chosen=$2 ;;
	--only) only=$2 ;;
	*) break ;;
	esac
	shift 2
done

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
		--no-fail-fast --manifest-path selftests/host/Cargo.toml --target-dir /repo/out/target-mutations -- "$@") >>"$log" 2>&1 &
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
	if [ -z "$2" ]; then
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
		echo "not ok $title: not found by ${pattern:-the tests of this machine} ($SECONDS s)"
		tail -n 15 "$log" | sed 's/^/    /'
		failed=$((failed + 1))
	fi
done 3< <(mutations --list "$@")
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
