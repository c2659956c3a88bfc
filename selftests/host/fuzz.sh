#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs each fuzz target for SECONDS, from the corpus beside it and from the finds of earlier runs. A crash fails the
# script and leaves its input below $FUZZ_DIR. Needs rustc, cargo and clang: run it in the tool tree.
#
# usage: fuzz.sh SECONDS [TARGET...]

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=(private_data header incoming responder xdr version2)

: "${CARGO_TARGET_DIR:=/cache/target-fuzz}"
: "${FUZZ_DIR:=/cache/fuzz}"
export CARGO_TARGET_DIR
triple=$(rustc -vV | sed -n 's/^host: //p')

# The flags of cargo-fuzz, as far as a stable compiler takes them. Naming the target keeps the flags away from build
# scripts.
export CXX=clang++-19
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Clinker=clang++-19"
cargo build --manifest-path "$here/fuzz/Cargo.toml" --release --locked --target "$triple"

failed=0
for target in "${targets[@]}"; do
	found=$FUZZ_DIR/$target
	mkdir -p "$found/corpus"
	echo "fuzz: $target for $seconds s"
	"$CARGO_TARGET_DIR/$triple/release/$target" "$found/corpus" "$here/fuzz/corpus/$target" \
		-artifact_prefix="$found/" -max_total_time="$seconds" -max_len=1024 -timeout=10 -print_final_stats=1 \
		>"$found/log" 2>&1 && status=0 || status=$?
	# A target that was built without coverage finds nothing and must not count as a success.
	if [ "$status" -ne 0 ] || ! grep -aq 'INITED cov: [1-9]' "$found/log"; then
		echo "fuzz: $target failed (status $status); its input is in $found, the end of its log:" >&2
		tail -n 40 "$found/log" >&2
		failed=1
	else
		grep -aE '^#[0-9]+\s+DONE|number_of_executed_units' "$found/log"
	fi
done
exit "$failed"
