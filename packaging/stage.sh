#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Puts the files of the package for DKMS under a directory, for the package of any distribution, without manual pages and
# documents. Usage: stage.sh DIRECTORY VERSION. SBINDIR is /usr/sbin by default.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$1 version=$2
sources=$root/usr/src/rpcrdma-rs-$version

mkdir -p "$sources/packaging"
cp -r Kbuild .config.fragment include src "$sources/"
# What a build on the user's machine needs.
install -m 755 packaging/{dkms-build,check-kdir.sh,check-module.sh,kernel-tools.sh,prepare.sh} "$sources/packaging/"
install -m 644 packaging/{lib.sh,kernels} "$sources/packaging/"
sed "s/#MODULE_VERSION#/$version/" packaging/dkms.conf >"$sources/dkms.conf"
install -D -m 644 packaging/modprobe.conf "$root/usr/lib/modprobe.d/rpcrdma-rs.conf"
install -D -m 644 packaging/60-rpcrdma-rs.rules "$root/usr/lib/udev/rules.d/60-rpcrdma-rs.rules"
install -D -m 755 tools/rpcrdma "$root${SBINDIR:-/usr/sbin}/rpcrdma"
install -D -m 644 tools/rpcrdma.bash "$root/usr/share/bash-completion/completions/rpcrdma"
install -D -m 755 packaging/switch.sh "$root/usr/lib/rpcrdma-rs/switch"
