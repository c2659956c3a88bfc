#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs parts of the test suite one after the other and adds up their results. The last line is 'N passed, N failed'.
#
#   run.sh PART...      parts: host tool packaging native vm-stock vm kunit vng native-debug kunit-debug vm-debug
#
# `native` has all VM tests in native guests, `vm-stock` on Debian's kernel the tests that native guests do not run, and
# the core; `vm` has all on the kernel that KERNEL names, stock by default. `kunit` runs natively, for KUnit is in no
# distribution's kernel. The native kernel, which clang builds with other options than Debian's, is made by the parts
# that need it. `native-debug` and `kunit-debug` have the client on the native kernel that looks for bugs, with less
# data; `vm-debug` has what these lack on the debug kernel.
#
# Native guests run in one more pair than the machine has processors, since tests wait for timers, too; debug guests in as
# many as it has. LANES is another number.
#
# TESTS="pattern..." limits the VM parts to the tests that match. With UNTIL=EPOCH they begin no test after that second and
# say which files' tests they have left out; that line, and those of the tests that failed, are repeated before the last
# one. TAP=DIRECTORY gets their results in the format of the kernel, too.

set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
passed=0 failed=0
left_out=()
bad=()
took=()

# What is no failure of one test.
failed_whole() {
	echo "$1: $2"
	bad+=("$1: not ok: $2")
	failed=$((failed + 1))
}

# Every part ends with a line of the form 'N passed, N failed'; one that does not has failed as a whole.
part() {
	local name=$1 log rc line began=$SECONDS
	shift
	log=$(mktemp)
	echo "== $name"
	"$@" 2>&1 | tee "$log"
	rc=${PIPESTATUS[0]}
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		# A part that has left all out for want of time has tested nothing, and failed at nothing.
		[ "$rc" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] ||
			{ [ "${BASH_REMATCH[1]}" -eq 0 ] && grep -q '^left out, out of time: ' "$log"; } ||
			failed_whole "$name" "exit status $rc"
	else
		failed_whole "$name" "ended without a result (exit status $rc)"
	fi
	while read -r line; do
		left_out+=("$name: $line")
	done < <(grep '^left out, out of time: ' "$log")
	# With the first lines of its reason.
	while IFS= read -r line; do
		bad+=("$name: $line")
	done < <(grep -E -A 3 '^not ok | \.\.\. FAILED$' "$log" | grep -E '^not ok | \.\.\. FAILED$|^    ' | cut -c -200)
	rm -f "$log"
	took+=("$name: $((SECONDS - began)) s")
}

vm() {
	local name=$1 kernel=$2 lanes spare=0
	shift 2
	[ "$kernel" != native ] || spare=1
	[ -z "${TAP:-}" ] || mkdir -p "$TAP"
	# Each lane would write a file of its own, and a run that is emulated keeps the processors busy by itself.
	[ -z "${TAP:-}" ] && [[ $kernel == native* ]] && lanes=${LANES:-$(($(nproc) + spare))}
	# shellcheck disable=SC2086 # patterns are words
	selftests/guests/lanes.sh "${lanes:-1}" test --kernel "$kernel" ${CI:+--patience 1} ${UNTIL:+--until "$UNTIL"} \
		${RESUME:+--resume} ${TAP:+--tap "$TAP/$name.tap"} "$@" ${TESTS:-}
}

# Makes the native kernel, if the time allows, and then runs a command. An unfinished build is continued by the next
# run.
natively() {
	local minutes=15
	if [ -n "${UNTIL:-}" ] && ! selftests/setup/setup.sh --ready kernel-native 2>/dev/null && [ $(($(date +%s) + minutes * 60)) -ge "$UNTIL" ]; then
		echo "left out, out of time: all of it, since the kernel has yet to be built"
		echo "0 passed, 0 failed"
		return
	fi
	selftests/setup/setup.sh host tree linux kernel-native && selftests/setup/build.sh native && "$@"
}

[ $# -gt 0 ] || set -- host tool packaging native kunit vm-stock vng
for name; do
	case "$name" in
	host) part host selftests/setup/enter.sh selftests/host/test.sh ;;
	tool) part tool selftests/setup/enter.sh bash -c 'cd selftests && python3 -m tool' ;;
	packaging)
		part packaging selftests/setup/enter.sh selftests/setup/package/messages.sh
		part skips selftests/setup/enter.sh selftests/setup/package/skips.sh "$(selftests/setup/setup.sh --path kernel-stock)"
		;;
	native) part native natively vm native native ;;
	vm-stock) part vm-stock vm vm-stock stock --beside-native core ;;
	vm) part vm vm vm "${KERNEL:-stock}" ;;
	kunit) part kunit natively selftests/guests/run.sh kunit --kernel native ;;
	vng) part vng selftests/setup/vng/run.sh --test ${UNTIL:+--until "$UNTIL"} ;;
	native-debug) part native-debug vm native-debug native-debug --small --rounds 1 ;;
	kunit-debug) part kunit-debug selftests/guests/run.sh kunit --kernel native-debug ;;
	vm-debug) part vm-debug vm vm-debug debug --small --rounds 1 --beside-native rest ;;
	*)
		echo "no such part: $name" >&2
		exit 2
		;;
	esac
done

printf '== %s\n' "${took[@]}"
[ "${#left_out[@]}" -eq 0 ] || printf '%s\n' "${left_out[@]}"
[ "${#bad[@]}" -eq 0 ] || printf '%s\n' "${bad[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
