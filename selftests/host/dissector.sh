#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: compares the dissector with the decoder, message by message. Usage: dissector.sh DIRECTORY, which is
# what DISSECTION named when the host tests ran.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
plugins=$(tshark -G folders 2>/dev/null | sed -n 's/^Global Lua Plugins:[[:space:]]*//p')

# tshark takes no script from the command line of root, the user in the tree, but takes the scripts of this directory.
exec unshare --mount bash -c '
	set -e
	mount -t tmpfs none "$1"
	cp "$2" "$1"
	exec python3 "$3" "$4"
' -- "$plugins" "$here/../../tools/rpcrdma2.lua" "$here/dissector.py" "${1:?usage: dissector.sh DIRECTORY}"
