#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a command with an apt-get and apt-cache that know the packages of Debian's backports, on any machine, and leaves
# nothing behind. Needs no root. Usage: backports.sh SUITE COMMAND...

set -euo pipefail

suite=$1
shift
BACKPORTS_COMMAND=$(printf '%q ' "$@")
export BACKPORTS_COMMAND

# A root file system without a package: only apt, which would fill it, remains, with mmdebstrap's mirror and keys.
exec mmdebstrap --mode=chrootless --variant=custom --format=null \
	--aptopt='Acquire::Retries "3"' --aptopt='Acquire::Languages "none"' --aptopt='APT::Sandbox::User "root"' \
	--customize-hook='APT_CONFIG=$MMDEBSTRAP_APT_CONFIG exec bash -c "$BACKPORTS_COMMAND"' "$suite-backports" -
