#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Hunts for races in native guests. Usage: run.sh [--minutes N] [--seed N] (run.sh --help lists the options). The last
# line is 'N passed, N failed', of cycles.

set -euo pipefail

selftests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

mkdir -p "$selftests/../out/soak"
"$selftests/setup/enter.sh" gcc -O2 -Wall -Wextra -Werror -o out/soak/storm selftests/soak/storm.c
PACKAGE=soak KERNEL=native exec "$selftests/guests/run.sh" "$@"
