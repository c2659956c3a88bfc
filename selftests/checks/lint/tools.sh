# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: functions that the lint scripts share.

set -euo pipefail

RUFF_VERSION=0.14.0

# Puts ruff, which Debian does not carry, into the cache.
ruff() {
	local dir=/cache/ruff-$RUFF_VERSION
	if [ ! -x "$dir/bin/ruff" ]; then
		rm -rf "$dir"
		python3 -m venv "$dir" >&2
		"$dir/bin/pip" -q install "ruff==$RUFF_VERSION" >&2 || {
			echo "error: cannot install ruff: check that this machine reaches its Python package registry" >&2
			return 1
		}
	fi
	"$dir/bin/ruff" "$@"
}

rust_files() { git ls-files '*.rs' | grep -v bindings_; }
shell_files() { git ls-files '*.sh' '*.bash' '.ci/run' packaging/dkms-build packaging/dkms.conf packaging/PKGBUILD 'packaging/debian/*.p*'; }
python_paths() { { git ls-files '*.py' | cut -d/ -f1-2; git grep -lE '^#!/usr/bin/python3' -- tools; } | sort -u; }

# git refuses to look at a repository of another user, which ours is inside the tree.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
