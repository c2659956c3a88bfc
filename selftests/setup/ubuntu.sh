#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs mmdebstrap with what it has to know of Ubuntu, a mirror, the names of suites and the keys, in a release of Debian that
# is newer than all of them: the tree of sid, which series.sh makes. The cache is at /cache there. Usage:
#
#   ubuntu.sh MMDEBSTRAP-ARGUMENT... SUITE /cache/DIRECTORY

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export TREE=$CACHE/series-sid
"$SETUP/series.sh" --tree-only sid
"$SETUP/enter.sh" apt-get -q install -y --no-install-recommends mmdebstrap ubuntu-keyring distro-info-data
exec "$SETUP/enter.sh" mmdebstrap --components=main,universe --keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg "$@"
