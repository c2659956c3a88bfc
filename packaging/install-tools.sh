#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Installs what belongs to the module besides itself: the command rpcrdma with its completion for bash, the manual pages, the
# rule for udev; or removes them. A package does the same and more (make deb). Usage, as root:
#
#   install-tools.sh [--uninstall]
#
# PREFIX is /usr/local by default; DESTDIR is put before every path.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=${DESTDIR:-}${PREFIX:-/usr/local}

files=(
	"755 tools/rpcrdma $prefix/sbin/rpcrdma"
	"644 tools/rpcrdma.bash $prefix/share/bash-completion/completions/rpcrdma"
	"644 packaging/rpcrdma_rs.4 $prefix/share/man/man4/rpcrdma_rs.4"
	"644 packaging/rpcrdma.8 $prefix/share/man/man8/rpcrdma.8"
	# udev reads those of an administrator there.
	"644 packaging/60-rpcrdma-rs.rules ${DESTDIR:-}/etc/udev/rules.d/60-rpcrdma-rs.rules"
)

[ -n "${DESTDIR:-}" ] || [ "$(id -u)" -eq 0 ] || {
	echo "error: root is needed to change $prefix: use sudo" >&2
	exit 1
}
for line in "${files[@]}"; do
	read -r mode source target <<<"$line"
	if [ "${1:-}" = --uninstall ]; then
		[ ! -e "$target" ] || { rm "$target" && echo "removed $target"; }
	else
		install -D -m "$mode" "$source" "$target"
		echo "installed $target"
	fi
done
