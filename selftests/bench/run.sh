#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Compares the transport under test with the in-tree one: builds the counting plugin, the load and a third build for the client,
# runs the comparison, draws its plots. Usage: run.sh [PATTERN...] (run.sh --help lists the options)

set -euo pipefail

selftests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
enter=$selftests/setup/enter.sh

case " $* " in
*" --kernel "* | *" --kernel="*) ;;
*) set -- --kernel stock "$@" ;;
esac
"$enter" selftests/bench/tools.sh
case " $* " in
*" --list "* | *" --help "* | *" -h "* | *" --side server "*) ;;
*" --kernel test "* | *" --kernel=test "*) "$selftests/bench/repaired.sh" test ;;
*) "$selftests/bench/repaired.sh" stock ;;
esac
PACKAGE=bench "$selftests/guests/run.sh" "$@"
case " $* " in
*" --list "* | *" --help "* | *" -h "* | *" --only overhead "*) exit ;;
esac
case " $* " in
*" --side server "*) "$enter" selftests/bench/tools.sh plots out/bench/server ;;
*) "$enter" selftests/bench/tools.sh plots out/bench ;;
esac
