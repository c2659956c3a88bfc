#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# In a guest of vng: mounts the export, then becomes the command to run, which begins in /repo.

# shellcheck source=selftests/setup/vng/guest/ready.sh
. /share/ready.sh

set_up || {
	echo "error: the client could not be set up; its last lines of output:"
	tail -n 15 /run/vng-set-up.log
	exit 125
} >&2
export HOME=/root
exec bash /share/command
