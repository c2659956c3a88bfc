#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: tests the messages of the scripts under packaging/ about a kernel or a machine that is not as they need
# it: one line, and the right one. Build directories, compilers, kernel sources and distributions are faked by small files.
# The last line is 'N passed, N failed'.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# It mounts over directories of the system.
[ "$(pwd -P)" = /repo ] || {
	echo "error: run it inside the tool tree: selftests/setup/enter.sh selftests/setup/package/messages.sh" >&2
	exit 2
}
passed=0 failed=0

fake=$(mktemp -d)
trap 'umount /etc/os-release /etc 2>/dev/null; rm -rf "$fake"' EXIT
bin=$fake/bin kdir=$fake/kdir
release=7.3.4+deb13-amd64
rustc='rustc 1.85.1 (4eb161250 2025-03-15)'
gcc='x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0'

# expect NAME STATUS PATTERN COMMAND...: the command ends with the status, and all that it prints on standard error is
# one line, which matches the pattern; nothing, if the pattern is empty.
expect() {
	local name=$1 status=$2 pattern=$3 rc=0 said
	shift 3
	PATH=$bin "$@" >"$fake/stdout" 2>"$fake/stderr" || rc=$?
	said=$(grep -vE '^(==>|make: )' "$fake/stderr" || true)
	if [ "$rc" -eq "$status" ] && [[ $said =~ $pattern ]] && { [ -n "$pattern" ] || [ -z "$said" ]; } &&
		[ "$(grep -c . <<<"$said")" -le 1 ]; then
		passed=$((passed + 1))
		echo "ok     $name"
	else
		failed=$((failed + 1))
		echo "not ok $name: status $rc, wanted $status and '$pattern':"
		sed 's/^/    /' "$fake/stderr"
	fi
}

# program NAME [SCRIPT-LINE...]: puts a fake one into the only directory of PATH.
program() {
	local name=$1
	shift
	rm -f "$bin/$name"
	printf '%s\n' '#!/bin/bash' "$@" >"$bin/$name"
	chmod +x "$bin/$name"
}

system() { printf '%s\n' "$@" >"$fake/os-release"; }

# A kernel and a machine that lack nothing.
all_well() {
	local tool
	rm -rf "${bin:?}" "$kdir" "$fake/src" "$fake/out" "$fake/sysroot"
	mkdir -p "$bin" "$kdir"/{rust,scripts,include/config,include/generated} "$fake/src" "$fake/out"
	mkdir -p "$fake/sysroot/lib/rustlib/src/rust/library/core/src"
	: >"$fake/sysroot/lib/rustlib/src/rust/library/core/src/lib.rs"
	for tool in awk bash basename cat chmod comm cp cut date df diff dirname du env find flock grep head id ln ls make mkdir \
		mv nproc paste perl realpath rm sed sh sha256sum sort stat sync tail tar touch tr wc xargs xz; do
		ln -s "$(command -v "$tool")" "$bin/$tool"
	done
	for tool in flex bison bc pahole cc; do
		program "$tool"
	done
	program dpkg-query 'exit 1'
	program uname 'echo 6.1.0-other'
	program rustc "[ \$1 = --print ] && echo $fake/sysroot || echo '$rustc'"
	program bindgen "echo 'bindgen 0.71.1'"
	program x86_64-linux-gnu-gcc-14 "[ \$1 = -dumpversion ] && echo 14 || echo '$gcc'"

	sed '/^### Part 2/,$d' .config.fragment | grep '^CONFIG_' >"$kdir/.config"
	printf '%s\n' CONFIG_RUST=y CONFIG_X86=y CONFIG_CC_IS_GCC=y CONFIG_GCC_VERSION=140200 CONFIG_DEBUG_INFO_BTF=y \
		CONFIG_MODULE_SIG=y CONFIG_PAHOLE_VERSION=130 "CONFIG_CC_VERSION_TEXT=\"$gcc\"" \
		"CONFIG_RUSTC_VERSION_TEXT=\"$rustc\"" 'CONFIG_BINDGEN_VERSION_TEXT="bindgen 0.71.1"' >>"$kdir/.config"
	echo "$release" >"$kdir/include/config/kernel.release"
	echo '#define LINUX_PACKAGE_ID " Debian 7.3.4-1"' >"$kdir/include/generated/package.h"
	printf '0x0\t%s\tvmlinux\tEXPORT_SYMBOL_GPL\t\n' _Rone rust_helper_two printk >"$kdir/Module.symvers"
	: >"$kdir/rust/libkernel.rmeta"
	: >"$kdir/scripts/target.json"
	printf '%s\n' 'modules:' '	echo module >$(MO)/rpcrdma_rs.ko' '	echo once >>$(CURDIR)/../count' >"$kdir/Makefile"
	system 'ID=debian'
}

# The same as a headers package without metadata, and the kernel's source under /usr/src.
without_metadata() {
	all_well
	rm -r "$kdir/rust" "$kdir/scripts/target.json"
	kernel_source "$fake/src/linux-source-7.3" 4
}

# kernel_source DIRECTORY SUBLEVEL: a stand-in for Linux 7.3.x.
kernel_source() {
	mkdir -p "$1/rust/kernel"
	: >"$1/rust/kernel/lib.rs"
	{
		printf '%s = %s\n' VERSION 7 PATCHLEVEL 3 SUBLEVEL "$2" EXTRAVERSION ''
		cat <<'MAKE'
olddefconfig:
	sed -i 's/PAHOLE_VERSION=130/PAHOLE_VERSION=131/' $(O)/.config
modules_prepare:
	mkdir -p $(O)/rust $(O)/include/generated
	printf 'EXPORT_SYMBOL_RUST_GPL(%s);\n' _Rone rust_helper_two >$(O)/rust/exports_all_generated.h
	echo '#define UTS_RELEASE "$(KERNELRELEASE)"' >$(O)/include/generated/utsrelease.h
	echo metadata >$(O)/rust/libkernel.rmeta
	touch $(O)/rust/kernel.o
	printf 'modules:\n\techo module >$$(MO)/rpcrdma_rs.ko\n' >$(O)/Makefile
	echo once >>$(O)/../count
	ln -sfn $(CURDIR) $(O)/source
MAKE
	} >"$1/Makefile"
}

prepare() { expect "$1" "$2" "$3" packaging/prepare.sh --output "$fake/out/kdir" "${@:4}" "$kdir"; }
check() { expect "$1" 1 "$2" packaging/check-kdir.sh "${@:3}" "$kdir"; }

# is NAME CONDITION...
is() {
	local name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok     $name"
	else
		failed=$((failed + 1))
		echo "not ok $name: $*"
	fi
}

# The files that the scripts read besides their arguments, and where DKMS builds.
touch "$fake/os-release"
mkdir -p "$fake/src"
cp -a /etc "$fake/etc"
mount --bind "$fake/etc" /etc
mount -t tmpfs tmpfs /var/lib
mount --bind "$fake/os-release" /etc/os-release
mount -t tmpfs tmpfs /usr/src
mount -t tmpfs tmpfs /sys/kernel
mount -t tmpfs tmpfs /sys/module
mkdir -p /sys/kernel/security /sys/module/module/parameters
# A kernel source for the scripts that look there by themselves.
usr_src() {
	find /usr/src -mindepth 1 -delete
	[ $# -eq 0 ] || cp -r "$@" /usr/src/
}

all_well
expect "nothing is missing" 0 '' packaging/check-kdir.sh "$kdir"
prepare "nothing to prepare" 0 ''
is "the directory itself is printed" [ "$(cat "$fake/stdout")" = "$kdir" ]

# The kernel.
missing() { expect "$1" 1 "$2" packaging/check-kdir.sh "/lib/modules/7.3.4-x/build"; }
system 'ID=debian'
missing "no headers, Debian" '^error: .*no such directory: .*apt-get install linux-headers-7.3.4-x'
system 'ID=fedora'
missing "no headers, Fedora" 'dnf install kernel-devel-7.3.4-x'
system 'ID=cachyos' 'ID_LIKE=arch'
missing "no headers, Arch" 'pacman -S linux-headers'
system 'ID=gentoo'
missing "no headers, elsewhere" 'install the headers of kernel 7.3.4-x'
expect "no headers, make" 2 '^error: .*no such directory' make KDIR=/lib/modules/7.3.4-x/build
expect "no headers, make prepare" 2 '^error: .*no such directory' make prepare KDIR=/lib/modules/7.3.4-x/build
expect "make prepare without KDIR" 2 '^error: say which kernel' make prepare
expect "make test with KDIR" 2 "'test' is for the kernels of the set-up: call it without KDIR" make test KDIR=/lib/modules/7.3.4-x/build
all_well
rm "$kdir/.config"
check "no .config" 'no .config: this is not the build directory'
all_well
sed -i '/^CONFIG_RUST=y/d' "$kdir/.config"
check "no Rust, Debian" 'without Rust: .*since 6.18.*trixie-backports'
for id in ubuntu fedora arch; do
	system "ID=$id"
	check "no Rust, $id" 'without Rust: install the newest kernel'
done
system 'ID=gentoo'
check "no Rust, elsewhere" 'without Rust: configure it with CONFIG_RUST=y'
all_well
mapfile -t tested < <(sed -nE 's/^([0-9.]+)\s.*/\1/p' packaging/kernels)
oldest=${tested[0]} newest=${tested[-1]}
echo 6.19.8+deb14-amd64 >"$kdir/include/config/kernel.release"
check "an old kernel" "the kernel is 6.19.8.deb14-amd64, and $oldest is the oldest"
for newer in "$oldest.0-44-generic" 7.2.12 "${tested[@]/%/.9-arch1-1}" 7.3.0-rc1 7.10.1 8.0.0; do
	echo "$newer" >"$kdir/include/config/kernel.release"
	expect "a kernel that is new enough, $newer" 0 '' packaging/check-kdir.sh "$kdir"
done
for newer in 7.10.1 8.0.0-rc1; do
	echo "$newer" >"$kdir/include/config/kernel.release"
	check "an untested kernel, $newer" "the kernel is $newer, and $newest is the newest .*echo ${newer%.*} >>/etc/rpcrdma-rs/kernels" --tested
done
mkdir /etc/rpcrdma-rs
echo 7.10 >/etc/rpcrdma-rs/kernels
check "an untested kernel, another is allowed" "8.0.0-rc1, and 7.10 is the newest" --tested
echo 8.0 >>/etc/rpcrdma-rs/kernels
expect "an untested kernel that is allowed" 0 '' packaging/check-kdir.sh --tested "$kdir"
rm -r /etc/rpcrdma-rs
all_well
sed -i '/^CONFIG_INFINIBAND=/d' "$kdir/.config"
check "an option is missing" 'the kernel lacks CONFIG_INFINIBAND='

# The compilers.
all_well
rm "$bin/x86_64-linux-gnu-gcc-14"
check "no gcc, Debian" 'no x86_64-linux-gnu-gcc-14 here: apt-get install gcc-14'
system 'ID=fedora'
check "no gcc, Fedora" 'dnf install gcc'
all_well
program x86_64-linux-gnu-gcc-14 'echo 13'
check "the wrong gcc" 'built by x86_64-linux-gnu-gcc-14 .Debian.*gcc-14 here is version 13'
all_well
printf '%s\n' CONFIG_CC_IS_CLANG=y CONFIG_CLANG_VERSION=190107 >>"$kdir/.config"
check "no clang" 'no clang here: apt-get install clang-19 lld-19 llvm-19'
program clang 'echo 18.1.0'
check "the wrong clang" 'clang here is version 18.1.0'
all_well
rm "$bin/rustc"
check "no rustc" "built by 'rustc 1.85.1 .*there is no rustc here: apt-get install rustc"
program rustc 'echo rustc 1.96.1'
check "the wrong rustc" "built by 'rustc 1.85.1 .*rustc here is 'rustc 1.96.1'"
program rustc-1.85 "echo '$rustc'"
expect "the right rustc by its versioned name" 0 '' packaging/check-kdir.sh "$kdir"
expect "the tools" 0 '' packaging/kernel-tools.sh "$kdir"
is "make is told that name" grep -qx RUSTC=rustc-1.85 "$fake/stdout"
all_well
rm "$bin/bindgen"
check "no bindgen" 'no bindgen here: apt-get install bindgen'

# The metadata.
without_metadata
check "no metadata, Debian" 'no Rust metadata .*install version 7.3.4-1 of linux-source-7.3 and run .make prepare'
expect "no metadata, make" 2 '^error: .*run .make prepare' make KDIR="$kdir"
system 'ID=ubuntu' 'ID_LIKE=debian'
check "no metadata, Ubuntu" 'apt-get install linux-lib-rust-7.3.4'
system 'ID=fedora'
check "no metadata, Fedora" "dnf download --source kernel.*make prepare"
system 'ID=arch'
check "no metadata, Arch" 'linux-headers package'
system 'ID=gentoo'
check "no metadata, elsewhere" 'make prepare KDIR=.* SOURCE=directory. with the source of 7.3.4'
mkdir -p "$kdir/rust/kernel"
: >"$kdir/rust/kernel/lib.rs"
check "no metadata, a kernel tree" "run 'make modules_prepare' there"
all_well
rm "$kdir/scripts/target.json"
check "no target.json" 'scripts/target.json is missing'

# The prerequisites of rebuilding them.
without_metadata
expect "ready to prepare" 0 '' packaging/check-kdir.sh --prepare "$kdir"
program bindgen 'echo bindgen 0.72.0'
check "the wrong bindgen" "built by 'bindgen 0.71.1', and bindgen here is 'bindgen 0.72.0'" --prepare
for tool in flex pahole; do
	without_metadata
	rm "$bin/$tool"
	check "no $tool" "no $tool here: apt-get install $tool" --prepare
done
without_metadata
rm -r "$fake/sysroot"
check "no rust-src" 'apt-get install rust-src' --prepare
without_metadata
program cc 'read -r line; case "$line" in *gelf*) exit 1 ;; esac'
check "no gelf.h" 'no gelf.h here: apt-get install libelf-dev' --prepare
program cc 'read -r line; case "$line" in *openssl*) exit 1 ;; esac'
check "no openssl" 'apt-get install libssl-dev' --prepare

# The source.
without_metadata
usr_src
prepare "no source" 77 'no kernel source under /usr/src: install version 7.3.4-1 of linux-source-7.3'
kernel_source "$fake/src/linux-source-7.3" 5
usr_src "$fake/src/linux-source-7.3"
prepare "a newer source" 77 'linux-source-7.3 .it is Linux 7.3.5, the kernel is 7.3.4'
without_metadata
echo 7.3.4-2 >"$fake/src/linux-source-7.3/.package-version"
prepare "a source of another package version" 77 'package version 7.3.4-2, the kernel of 7.3.4-1' \
	--source "$fake/src/linux-source-7.3"
without_metadata
program dpkg-query '[ "$1" = -S ] && echo "linux-source-7.3: $2" || echo 7.3.4-3'
(cd "$fake/src" && tar -cJf linux-source-7.3.tar.xz linux-source-7.3)
usr_src "$fake/src/linux-source-7.3.tar.xz"
prepare "an archive of another package version" 77 'linux-source-7.3.tar.xz .it is of package version 7.3.4-3'
prepare "an archive that is none" 77 'it is no kernel source' --source /etc/os-release
prepare "a source that is not there" 1 'no such kernel source' --source /nonexistent
without_metadata
touch "$fake/src/linux-source-7.3/.config"
prepare "a source with a build in it" 77 'mrproper' --source "$fake/src/linux-source-7.3"

# Rebuilding.
without_metadata
usr_src
prepare "no source to prepare from, looked at" 77 'no kernel source under /usr/src' --check
prepare "not prepared yet" 1 "run 'make prepare" --check --source "$fake/src/linux-source-7.3"
mkdir -p "$fake/out/kdir"
touch "$fake/out/kdir/precious"
prepare "the output is something else" 77 'something is there' --source "$fake/src/linux-source-7.3"
is "and is left alone" [ -e "$fake/out/kdir/precious" ]
rm -r "$fake/out/kdir"
prepare "prepared from a directory" 0 '' --source "$fake/src/linux-source-7.3"
is "the new directory is printed" [ "$(cat "$fake/stdout")" = "$fake/out/kdir" ]
prepare "prepared again" 0 '' --source "$fake/src/linux-source-7.3"
prepare "prepared, no source named" 0 ''
prepare "prepared, looked at" 0 '' --check
is "that was built once" [ "$(wc -l <"$fake/out/count")" = 1 ]
echo 'CONFIG_NEW=y' >>"$kdir/.config"
prepare "the kernel has changed" 1 "run 'make prepare" --check --source "$fake/src/linux-source-7.3"
prepare "prepared for the changed kernel" 0 '' --source "$fake/src/linux-source-7.3"
is "that was built once more" [ "$(wc -l <"$fake/out/count")" = 2 ]
program x86_64-linux-gnu-gcc-14 "[ \$1 = -dumpversion ] && echo 14 || echo '$gcc, newer'"
prepare "an update of the C compiler changes nothing" 0 '' --check
program bindgen "echo 'bindgen 0.71.1 (again)'"
prepare "another compiler of metadata does" 1 "run 'make prepare" --check --source "$fake/src/linux-source-7.3"
without_metadata
(cd "$fake/src" && tar -cJf linux-source-7.3.tar.xz linux-source-7.3)
usr_src "$fake/src/linux-source-7.3.tar.xz"
prepare "prepared from an archive under /usr/src" 0 ''
usr_src
prepare "the archive is gone, what was made stays" 0 '' --check
without_metadata
sed -i 's/^olddefconfig:/&\n\techo CONFIG_BOGUS=y >>$(O)\/.config/' "$fake/src/linux-source-7.3/Makefile"
prepare "another configuration" 1 'does not stay the same .*CONFIG_BOGUS=y would come' --source "$fake/src/linux-source-7.3"
without_metadata
sed -i 's/_Rone/_Rother/' "$fake/src/linux-source-7.3/Makefile"
prepare "other names of Rust symbols" 1 'is not the source of this kernel: 1 Rust symbols are not .* 1 of those' \
	--source "$fake/src/linux-source-7.3"
without_metadata
sed -i 's/\$(KERNELRELEASE)/7.3.4-other/' "$fake/src/linux-source-7.3/Makefile"
prepare "another release" 1 'calls its release 7.3.4-other' --source "$fake/src/linux-source-7.3"
without_metadata
sed -i 's/^modules_prepare:/&\n\tfalse/' "$fake/src/linux-source-7.3/Makefile"
expect "the build fails" 1 'building the kernel crate failed: see' \
	bash -c 'packaging/prepare.sh --output "$1/out/kdir" --source "$1/src/linux-source-7.3" "$1/kdir" 2> >(grep -v "^    |" >&2)' \
	- "$fake"
prepare "and counts as not done" 1 "run 'make prepare" --check --source "$fake/src/linux-source-7.3"

# The instructions to DKMS: to build, or to skip the kernel, with the reason in one line.
dkms_check() {
	expect "$1" "$2" "$3" env "release=${4:-$release}" bash -c \
		'mkdir -p "$1/lib/$release"; ln -sfn "$1/kdir" "$1/lib/$release/build"; packaging/dkms-build --check "$1/lib/$release/build"' \
		- "$fake"
}
without_metadata
usr_src "$fake/src/linux-source-7.3"
dkms_check "DKMS: everything is there" 0 ''
is "the metadata was made, and the module" [ -e "/var/lib/rpcrdma-rs/module-$release/rpcrdma_rs.ko" ]
rm -r /var/lib/rpcrdma-rs
usr_src
dkms_check "DKMS: no source" 1 "^rpcrdma-rs: not built for ${release/+/.}: .*install version 7.3.4-1 of linux-source-7.3 and run 'dkms autoinstall -k ${release/+/.}'"
usr_src "$fake/src/linux-source-7.3"
program df 'echo head' 'echo "x 0 0 1000000 0 /"'
dkms_check "DKMS: no space" 1 "not built for ${release/+/.}: .*1500 MB are needed, and 976 MB are free"
without_metadata
rm "$bin/flex"
dkms_check "DKMS: no flex" 1 "not built for ${release/+/.}: .*no flex here: apt-get install flex"
all_well
dkms_check "DKMS: the headers have metadata" 0 ''
is "the module was compiled once" [ "$(wc -l <"$fake/count")" = 1 ]
dkms_check "DKMS: looked at again" 0 ''
is "and not again" [ "$(wc -l <"$fake/count")" = 1 ]
mkdir -p "$fake/dkms"
expect "DKMS: the build" 0 '' bash -c 'cd "$1/dkms" && "$2/packaging/dkms-build" "$1/lib/$3/build"' - "$fake" "$PWD" "$release"
is "takes what was compiled" [ "$(cat "$fake/dkms/out/kdir/rpcrdma_rs.ko") $(wc -l <"$fake/count")" = "module 1" ]
printf '%s\n' 'modules:' '	@echo "error[E0432]: unresolved import" >&2; exit 1' >"$kdir/Makefile"
echo CONFIG_OTHER=y >>"$kdir/.config"
dkms_check "DKMS: the crate lacks something" 1 "^rpcrdma-rs: not built for ${release/+/.}: error.E0432.: unresolved import .see /var/lib/rpcrdma-rs/module-${release/+/.}/log"
echo 6.19.8 >"$kdir/include/config/kernel.release"
dkms_check "DKMS: an old kernel" 1 "not built for 6.19.8: .*$oldest is the oldest" 6.19.8
echo 8.0.1 >"$kdir/include/config/kernel.release"
dkms_check "DKMS: an untested kernel" 1 "not built for 8.0.1: .*to allow it, .*echo 8.0 >>/etc/rpcrdma-rs/kernels && dkms autoinstall -k 8.0.1" 8.0.1

# The module that was built.
all_well
module=$fake/rpcrdma_rs.ko
echo module >"$module"
program modinfo "case \"\$*\" in *sunrpc*) exit 1 ;; *) echo '$release SMP preempt mod_unload ' ;; esac"
echo '[none] integrity confidentiality' >/sys/kernel/security/lockdown
echo N >/sys/module/module/parameters/sig_enforce
program uname "echo $release"
expect "no lockdown" 0 '' packaging/check-module.sh "$module"
is "nothing is said" [ ! -s "$fake/stdout" ]
echo 'none [integrity] confidentiality' >/sys/kernel/security/lockdown
expect "lockdown" 0 '' packaging/check-module.sh "$module"
is "lockdown is told in one line" grep -qE '^note: .*locked down \(integrity\).*not signed' "$fake/stdout"
program uname 'echo 6.1.0-other'
expect "lockdown of another kernel" 0 '' packaging/check-module.sh "$module"
is "nothing is said of it" [ ! -s "$fake/stdout" ]
program uname "echo $release"
echo '~Module signature appended~' >>"$module"
expect "lockdown, a signed module" 0 '' packaging/check-module.sh "$module"
is "nothing is said of a signed module" [ ! -s "$fake/stdout" ]
echo module >"$module"
echo '[none] integrity confidentiality' >/sys/kernel/security/lockdown
echo Y >/sys/module/module/parameters/sig_enforce
expect "signatures are enforced" 0 '' packaging/check-module.sh "$module"
is "that is told in one line" grep -qE '^note: .*enforces signatures' "$fake/stdout"
program modinfo "case \"\$*\" in *sunrpc*) echo '$release SMP preempt mod_unload modversions ' ;; *) echo '$release SMP preempt mod_unload ' ;; esac"
expect "another vermagic" 1 'its vermagic is .*built for another kernel' packaging/check-module.sh "$module"

# The module that takes the place of the in-tree one, when a package is installed.
switch() { expect "switch: $1" 0 '' packaging/switch.sh rpcrdma_rs; }
said() { is "switch: $1" grep -qE "$2" "$fake/stdout"; }
all_well
program modprobe ':'
program rmmod 'rmdir "/sys/module/$1" 2>/dev/null || rm -r "/sys/module/$1"'
rm -f /etc/modprobe.d/rpcrdma-rs.conf /etc/nfs.conf
program uname 'echo 7.0.0-44-generic'
echo 'rdma=y' >/etc/nfs.conf
switch "Linux 7.0, a server"
said "it is told to keep the in-tree module" '^rpcrdma-rs: this machine serves .* before Linux 7.2'
sed -i 's/y/n/' /etc/nfs.conf
switch "Linux 7.0, no server"
said "the next mount takes the module" 'the next mount with proto=rdma loads it'
program uname 'echo 7.2.1'
sed -i 's/n$/y/' /etc/nfs.conf
switch "Linux 7.2, a server"
said "the module serves, too" 'the next mount with proto=rdma loads it'
mkdir /sys/module/rpcrdma
echo 1 >/sys/module/rpcrdma/refcnt
switch "the in-tree module is in use"
said "the next boot takes the module" 'the in-tree rpcrdma is in use'
echo 0 >/sys/module/rpcrdma/refcnt
switch "the in-tree module is idle"
said "the module is in its place" 'loaded in the place of the in-tree rpcrdma'
echo blacklist rpcrdma_rs >/etc/modprobe.d/rpcrdma-rs.conf
switch "a mask"
said "the mask is named" 'masks the module'
rm -r /etc/modprobe.d/rpcrdma-rs.conf /etc/nfs.conf

# What is installed besides the module.
all_well
ln -s "$(command -v install)" "$bin/install"
root=$fake/root
installed() { (cd "$root" && find . -type f -printf '%m %p\n' | sort -k 2 | paste -sd ' '); }
expect "make install-tools" 0 '' make install-tools DESTDIR="$root"
is "the command, its completion, the pages and the rule for udev are there" [ "$(installed)" = "\
644 ./etc/udev/rules.d/60-rpcrdma-rs.rules 755 ./usr/local/sbin/rpcrdma \
644 ./usr/local/share/bash-completion/completions/rpcrdma \
644 ./usr/local/share/man/man4/rpcrdma_rs.4 644 ./usr/local/share/man/man8/rpcrdma.8" ]
expect "make uninstall-tools" 0 '' make uninstall-tools DESTDIR="$root"
is "nothing is left" [ -z "$(installed)" ]
expect "make install-tools, another prefix" 0 '' make install-tools DESTDIR="$root" PREFIX=/opt/rpcrdma
is "it is there" [ -x "$root/opt/rpcrdma/sbin/rpcrdma" ]
program id 'echo 1000'
expect "make install-tools without root" 2 '^error: root is needed to change /usr/local' make install-tools

# The packages are of one version.
versions=$({
	sed -n '1s/.*(\(.*\)).*/\1/p' packaging/debian/changelog
	sed -n 's/^Version: *//p' packaging/rpcrdma-rs.spec
	sed -n 's/^pkgver=//p' packaging/PKGBUILD
} | sort | uniq -c | awk '{ print NR, $1 }')
is "the packages of all distributions are of one version" [ "$versions" = "1 3" ]

# The place of the package.
for tool in dh dh_dkms mktemp; do program "$tool"; done
program dpkg-buildpackage 'touch ../rpcrdma-rs-dkms_0.1.0_all.deb'
ln -sf "$(command -v mktemp)" "$bin/mktemp"
ln -sf "$(command -v sed)" "$bin/sed"
expect "deb.sh" 0 '' packaging/deb.sh "$fake/elsewhere"
is "it names the package that is there" \
	grep -qx "the package is $fake/elsewhere/rpcrdma-rs-dkms_.*_all.deb" "$fake/stdout"
is "and the package is there" [ -e "$(sed 's/^the package is //' "$fake/stdout")" ]

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
