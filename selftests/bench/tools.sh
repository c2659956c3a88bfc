#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: builds the programs of the comparison, and gets the library that draws. Usage: tools.sh [plots DIRECTORY]

set -euo pipefail

here=selftests/bench
out=out/bench
venv=/cache/bench-$(sha256sum $here/requirements.txt | cut -c1-12)

if [ "${1:-}" = plots ]; then
	# No plots without the library, or when nothing was counted.
	if [ ! -e "$venv/.complete" ] || [ ! -e "$2/results.csv" ]; then
		exit 0
	fi
	PYTHONPATH=selftests PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -m bench.plots "$2"
	exit
fi

mkdir -p $out
flags=(-O2 -Wall -Wextra -Werror -Wno-unused-parameter)
gcc "${flags[@]}" -fPIC -shared -fvisibility=hidden -o $out/count.so $here/count.c $here/context.c
gcc "${flags[@]}" -o $out/load $here/load.c

[ ! -e "$venv/.complete" ] || exit 0
rm -rf /cache/bench-*
python3 -m venv "$venv"
if "$venv/bin/pip" -q install -r $here/requirements.txt; then
	touch "$venv/.complete"
else
	echo "cannot install the library that draws, so there will be no plots: this machine does not reach its Python package registry" >&2
fi
