# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Shared by the scripts beside it: what a kernel build directory ($kdir) says of its kernel, and which package of this
# distribution has what.
# shellcheck disable=SC2154 # kdir is set by those scripts

set -euo pipefail

die() {
	echo "error: $*" >&2
	exit 1
}

# What is to be typed when the metadata can be made; DKMS has a command of its own.
prepare_command() { echo "${RPCRDMA_PREPARE:-make prepare KDIR=$kdir}"; }

# The value of an option of the kernel: a string, or anything else.
option_text() { sed -n "s/^CONFIG_$1=\"\(.*\)\"/\1/p" "$kdir/.config"; }
option() { sed -n "s/^CONFIG_$1=//p" "$kdir/.config"; }

# The kernel's release; empty where it has never been built.
kernel_release() { cat "$kdir/include/config/kernel.release" 2>/dev/null || true; }

# The version of the package that the kernel comes from, as Debian's kernels have it.
kernel_package() {
	sed -n 's/^#define LINUX_PACKAGE_ID " Debian \(.*\)"/\1/p' "$kdir/include/generated/package.h" 2>/dev/null || true
}

# os_release FIELD
os_release() { sed -n "s/^$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" /etc/os-release 2>/dev/null || true; }

# debian, ubuntu, fedora, arch or other.
distribution() {
	local id
	for id in $(os_release ID) $(os_release ID_LIKE); do
		case "$id" in
		debian | ubuntu | fedora | arch) echo "$id" && return ;;
		esac
	done
	echo other
}

# how_to_get DEBIAN-AND-UBUNTU FEDORA ARCH: the command that installs packages, by their names in each distribution.
how_to_get() {
	case "$(distribution)" in
	debian | ubuntu) echo "apt-get install $1" ;;
	fedora) echo "dnf install $2" ;;
	arch) echo "pacman -S $3" ;;
	*) echo "install $2" ;;
	esac
}

# What is to be done about a kernel without Rust metadata.
metadata_advice() {
	local release package
	release=$(kernel_release)
	package=$(kernel_package)
	if [ -r "$kdir/rust/kernel/lib.rs" ]; then
		echo "run 'make modules_prepare' there"
		return
	fi
	case "$(distribution)" in
	debian)
		if [ -n "$package" ]; then
			echo "install version $package of linux-source-${release%.*} and run '$(prepare_command)'"
			return
		fi
		;;
	ubuntu) echo "apt-get install linux-lib-rust-$release" && return ;;
	arch) echo "install the linux-headers package of $release again: it has the metadata" && return ;;
	fedora)
		echo "unpack the source of kernel-$release ('dnf download --source kernel') and run" \
			"'make prepare KDIR=$kdir SOURCE=directory'"
		return
		;;
	esac
	echo "run 'make prepare KDIR=$kdir SOURCE=directory' with the source of $release"
}
