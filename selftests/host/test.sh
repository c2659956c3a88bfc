#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: runs the unit and property tests of the protocol core, prints the figures of each explorer, compares
# the dissector with the decoder, then runs each fuzz target for a few seconds from its corpus. The last line is
# 'N passed, N failed'.

set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
log=$(mktemp)
FIGURES=$(mktemp)
DISSECTION=$(mktemp -d)
export FIGURES DISSECTION
passed=0 failed=0

cargo test --locked --manifest-path "$here/Cargo.toml" --target-dir /cache/target-host 2>&1 | tee "$log"
rc=${PIPESTATUS[0]}
sort "$FIGURES"
while read -r p f; do
	passed=$((passed + p))
	failed=$((failed + f))
done < <(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed.*/\1 \2/p' "$log")
# A build that failed ran nothing.
[ "$rc" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1

if "$here/../setup/with-dissector.sh" python3 "$here/dissector.py" "$DISSECTION" >"$log" 2>&1; then
	echo "dissector ... ok"
	passed=$((passed + 1))
else
	tail -n 30 "$log"
	echo "dissector ... FAILED"
	failed=$((failed + 1))
fi
for target in private_data header incoming responder xdr version2; do
	if "$here/fuzz.sh" "${FUZZ_SECONDS:-5}" "$target" >"$log" 2>&1; then
		echo "fuzz target $target ... ok"
		passed=$((passed + 1))
	else
		tail -n 30 "$log"
		echo "fuzz target $target ... FAILED"
		failed=$((failed + 1))
	fi
done
rm -rf "$log" "$FIGURES" "$DISSECTION"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
