#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: runs a command whose tshark has the dissector of version 2. Usage: with-dissector.sh COMMAND...

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
plugins=$(tshark -G folders 2>/dev/null | sed -n 's/^Global Lua Plugins:[[:space:]]*//p')

# tshark takes no script from the command line of root, the user in the tree, but takes the scripts of this directory.
exec unshare --mount bash -c '
	set -e
	mount -t tmpfs none "$1"
	cp "$2" "$1"
	shift 2
	exec "$@"
' -- "$plugins" "$here/../../tools/rpcrdma2.lua" "${@:?usage: with-dissector.sh COMMAND...}"
