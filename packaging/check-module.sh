#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Says in one line why a kernel would refuse a built module. Usage: check-module.sh MODULE
# What can be mended after the build, a missing signature, is a note; all else is an error.

kdir=/nonexistent
# shellcheck source=packaging/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

module=${1:?usage: check-module.sh MODULE}
[ -r "$module" ] || die "$module: no such module"
command -v modinfo >/dev/null || die "there is no modinfo here: $(how_to_get kmod kmod kmod)"
vermagic=$(modinfo -F vermagic "$module")
release=${vermagic%% *}

# Against a module of the kernel's own, where the kernel is installed.
if own=$(modinfo -k "$release" -F vermagic sunrpc 2>/dev/null) && [ -n "$own" ] && [ "$own" != "$vermagic" ]; then
	die "$module: its vermagic is '$vermagic', that of the kernel's own modules '$own': it was built for another kernel"
fi

if [ "$release" = "$(uname -r)" ] && ! tail -c 28 "$module" | grep -qs '^~Module signature appended~'; then
	lockdown=$(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/kernel/security/lockdown 2>/dev/null || true)
	enforced=$(cat /sys/module/module/parameters/sig_enforce 2>/dev/null || true)
	case "${lockdown:-none} ${enforced:-N}" in
	"none N") ;;
	"none Y") why="enforces signatures (module.sig_enforce)" ;;
	*) why="is locked down ($lockdown), as it is under Secure Boot," ;;
	esac
	[ -z "${why:-}" ] ||
		echo "note: this kernel $why and $module is not signed: insmod would say 'Operation not permitted';" \
			"sign it by a key that this machine trusts, or install the rpcrdma-rs-dkms package, which does so"
fi
