# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Read in a guest of vng by the two that begin there: command.sh and bashrc. Mounts the export, once.

# The tool tree has no program that ends a machine. QEMU takes a reset for the end, and a kernel without ACPI can do
# nothing else.
if [ ! -e /usr/local/bin/poweroff ]; then
	printf '#!/bin/sh\nexec busybox reboot -f\n' >/usr/local/bin/poweroff
	chmod 755 /usr/local/bin/poweroff
fi

set_up() {
	[ -e /run/vng-is-up ] || {
		sh /share/set-up >/run/vng-set-up.log 2>&1 && touch /run/vng-is-up
	}
}
