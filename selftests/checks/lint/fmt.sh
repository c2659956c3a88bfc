#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: formats the sources. Usage: fmt.sh LINUX-SOURCE [--check]

# shellcheck source=selftests/checks/lint/tools.sh
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

linux=$1
check=${2:-}
mapfile -t files < <(rust_files)
rustfmt --edition 2021 --config-path "$linux/.rustfmt.toml" ${check:+--check} "${files[@]}"
mapfile -t paths < <(python_paths)
[ "${#paths[@]}" -eq 0 ] || ruff format -q --line-length 120 ${check:+--check} "${paths[@]}"
