#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: the share of the protocol core that the tests of the host crate reach, by regions of code without the
# tests' own. Lists the lines that none reaches. The last line is the share of regions.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${CARGO_TARGET_DIR:=/cache/target-coverage}"
export CARGO_TARGET_DIR
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT

export RUSTFLAGS='-Cinstrument-coverage' LLVM_PROFILE_FILE="$profiles/%p.profraw"
cargo test --locked --manifest-path "$here/Cargo.toml" >"$profiles/log" 2>&1 || {
	tail -n 40 "$profiles/log" >&2
	exit 1
}
program=$(sed -n 's/.*Running unittests .* (\(.*\))$/\1/p' "$profiles/log")
llvm-profdata-19 merge -sparse "$profiles"/*.profraw -o "$profiles/all"
llvm-cov-19 export --instr-profile "$profiles/all" "$program" >"$profiles/all.json"
python3 "$here/coverage.py" "$profiles/all.json"
