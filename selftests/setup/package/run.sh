#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests the package that `make deb` made as its users meet it: installs it with apt on a bare machine, upgrades the kernel, then
# boots that machine's own kernels. The last line is 'N passed, N failed'. Usage:
#
#   run.sh [SUITE]     (trixie, by default, or ubuntu:SUITE)
#
# The machine is a root file system in the cache, and the installation, mostly compiling, runs in a copy of it here: an
# emulated guest takes fifteen times as long. DKMS builds for the kernels that are installed, not for the running one.
# Then the copy becomes the disk of a guest.

# shellcheck source=selftests/setup/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

suite=${1:-$SUITE}
here=$TOP/selftests/setup/package
if [ "$(id -u)" -ne 0 ]; then
	say "root is needed to install packages into the file system of the machine under test: sudo"
	exec sudo --preserve-env=RPCRDMA_CACHE,RPCRDMA_ACCEL,XDG_CACHE_HOME,HOME "$here/run.sh" "$@"
fi

version=$(sed -n '1s/.*(\(.*\)).*/\1/p' "$TOP/packaging/debian/changelog")
bare=$CACHE/package-${suite/:/-}-$({ echo "$suite" && cat "$here/root.sh" "$here/chroot.sh"; } | key_of)
deb=$(ls "$TOP"/out/deb/rpcrdma-rs-dkms_*_all.deb 2>/dev/null || true)
[ -n "$deb" ] || die "no package in out/deb: run 'make deb'"

make_bare() {
	"$here/root.sh" "$suite" "$bare"
	finish "$bare" releases root/usr/bin/apt-get
}
if ! intact "$bare"; then
	need_space 4 "the bare machine"
	stage package "making a bare machine of $suite with its kernels (1.5 GB)" 120 \
		'du -sm "$bare.partial" | cut -f1 | sed "s/$/ MB of 1500/"' -- make_bare
fi
# A kernel with Rust, and on Debian the release's, which has none.
{ read -r new && { read -r old || old=; }; } <"$bare/releases"

need_space 10 "a copy of the machine and its disk"
work=$(mktemp -d "$CACHE/package-run.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
cp -a "$bare/root" "$work/root"
log=$TOP/out/deb/test.log
: >"$log"

in_machine() { BIND=$bare/archives:/var/cache/apt/archives "$here/chroot.sh" "$work/root" "$@"; }
# As its users do: with the packages that it recommends.
install_packages() {
	in_machine apt-get -q -o Acquire::Retries=3 -o APT::Keep-Downloaded-Packages=true install -y "$@"
}

passed=0 failed=0
# check WHAT COMMAND...: one test; the output of the command is shown if it fails.
check() {
	local what=$1 said
	shift
	if said=$("$@" 2>&1); then
		passed=$((passed + 1))
		echo "ok     $what"
	else
		failed=$((failed + 1))
		echo "not ok $what"
		printf '%s\n' "$said" | tail -n 20 | sed 's/^/    /'
	fi
	printf '%s\n' "--- $what" "$said" >>"$log"
}

# The state of the module for a kernel in DKMS: a line that ends with 'installed', or nothing.
status() { in_machine dkms status rpcrdma-rs | grep -F ", $1, " || true; }

# Ubuntu's DKMS signs on machines with Secure Boot alone, by the key of shim-signed.
case "$suite" in
ubuntu:*) key='' ;;
*) key="DKMS module signing key" ;;
esac
has_module() {
	local release=$1 file signer vermagic
	status "$release"
	[[ $(status "$release") == *": installed" ]] || return 1
	file=$(in_machine modinfo -k "$release" -F filename rpcrdma_rs)
	signer=$(in_machine modinfo -k "$release" -F signer rpcrdma_rs)
	vermagic=$(in_machine modinfo -k "$release" -F vermagic rpcrdma_rs)
	echo "$file, signed by '$signer', for $vermagic"
	[ "$signer" = "$key" ] && [ "${vermagic%% *}" = "$release" ] &&
		[ "$vermagic" = "$(in_machine modinfo -k "$release" -F vermagic rpcrdma)" ]
}

skipped() {
	local release=$1 said found
	[ -z "$(status "$release")" ] || return 1
	# As the kernel's own package would have it built.
	said=$(in_machine dkms autoinstall --kernelver "$release" 2>&1) || return 1
	echo "$said"
	found=$(in_machine find "/lib/modules/$release" -name 'rpcrdma_rs*') || return 1
	[ -z "$found" ] && [[ $said == *skip* ]]
}

# would_load RELEASE NAME MODULE: does modprobe get from a name to the module, which is there?
would_load() {
	local release=$1 name=$2 module=$3 said
	said=$(in_machine modprobe -n -v -S "$release" "$name")
	echo "modprobe $name: $said"
	[[ $said == *"modprobe -q $module "* ]] && in_machine modprobe -n -q -S "$release" --ignore-install "$module"
}
resolves() {
	local name
	for name in rpcrdma rpcrdma6 xprtrdma svcrdma; do
		would_load "$1" "$name" rpcrdma_rs || return 1
	done
}

documented() {
	local said page
	for page in man4/rpcrdma_rs.4.gz man8/rpcrdma.8.gz; do
		said=$(in_machine man --warnings -E UTF-8 -l -Tutf8 -Z "/usr/share/man/$page" 2>&1 >/dev/null) || return 1
		echo "$said"
		[ -z "$said" ] || return 1
	done
}

# A source that is configured after the headers, as unattended upgrades do it, has the skipped kernel built for.
later_source() {
	in_machine dkms uninstall "rpcrdma-rs/$version" -k "$new" && in_machine dkms unbuild "rpcrdma-rs/$version" -k "$new" &&
		[ -z "$(status "$new")" ] || return 1
	in_machine dpkg-trigger --no-await /usr/src && in_machine dpkg --configure --pending && has_module "$new"
}

# An upgrade has DKMS remove the old version for all kernels; each gets the new one.
upgraded() {
	in_machine dpkg -i /root/package.deb && has_module "$new" && has_module "$other"
}

# names_missing RELEASE PACKAGE...: packages are installed, and what the build for a kernel lacks is named by a command. On Debian
# the kernel of backports brings a libelf from there, and apt does not by itself take the libelf-dev that fits it; on Ubuntu each
# kernel has its Rust metadata in a package that no other depends on.
names_missing() {
	local release=$1 line
	shift
	# To apt a package's scripts speak by a terminal.
	install_packages "$@" 2>&1 | tr -d '\r' | tee "$work/said" || return 1
	line=$(sed -n "s/^rpcrdma-rs: not built for $release: .*: apt-get install //p" "$work/said")
	[ -n "$line" ] || return 0
	[ -z "$(status "$release")" ] || return 1
	# shellcheck disable=SC2086 # words on purpose
	install_packages $line && in_machine dkms autoinstall --kernelver "$release"
}

cp "$deb" "$work/root/root/package.deb"
check "apt installs the package, which names the missing packages" names_missing "$new" /root/package.deb
check "$new: the module is built, signed and installed" has_module "$new"
check "$new: all names of the in-tree module lead to it" resolves "$new"
[ -z "$old" ] || check "$old, which has no Rust, is skipped, not failed" skipped "$old"
check "the manual pages are without warnings" documented
check "a server's package is installed beside it" install_packages nfs-kernel-server
in_machine systemctl -q disable nfs-server
[[ $suite == ubuntu:* ]] || check "$new: it is built when the kernel's source comes last" later_source

# Another kernel comes with its headers, and DKMS builds for it. Debian's is of the real-time flavour, since backports carry a
# single version of the series that the module builds for; Ubuntu's is its update.
case "$suite" in
ubuntu:*) other=$(in_machine apt-cache depends linux-headers-generic | sed -n 's/.*Depends: linux-headers-\([0-9].*\)/\1/p') pocket=${suite#ubuntu:}-updates ;;
*) other=${new%-amd64}-rt-amd64 pocket=$suite-backports ;;
esac
check "another kernel is installed later: $other" \
	names_missing "$other" -t "$pocket" "linux-image-$other" "linux-headers-$other"
check "$other: the module is built, signed and installed" has_module "$other"
check "$new: the module is still there" has_module "$new"
check "the package is upgraded: both kernels have the module" upgraded

# The guest: a disk, an RDMA device over its network adapter that comes at boot, and the agent of the harness.
echo blacklist rpcrdma_rs >"$work/root/etc/modprobe.d/rpcrdma-rs.conf"
cp "$TOP/selftests/guests/harness/agent.py" "$work/root/root/agent.py"
cp "$here"/guest/*.service "$work/root/etc/systemd/system/"
in_machine systemctl -q enable test-rdma.service test-agent.service
# Nothing is built there, so that the disk can do without the sources; systemd need not look after changes under /usr.
rm -rf "$work"/root/var/lib/rpcrdma-rs/*/linux "$work"/root/usr/lib/rustlib/src "$work"/root/usr/src/linux-source-*.tar.xz
touch "$work/root/etc/.updated" "$work/root/var/.updated"
kernels=("$new" "$other" ${old:+"$old"})
for release in "${kernels[@]}"; do
	cp "$work/root/boot/vmlinuz-$release" "$work/root/boot/initrd.img-$release" "$work/"
done
BIND=$work:/mnt "$here/chroot.sh" "$bare/root" mke2fs -q -t ext4 -d /mnt/root /mnt/disk 8G
rm -rf --one-file-system "$work/root"

guests() {
	PACKAGE=setup.package "$TOP/selftests/guests/run.sh" "/cache/${work##*/}" "${kernels[@]}"
}
guests | tee "$work/guests" || true
line=$(tail -n 1 "$work/guests")
if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
	passed=$((passed + BASH_REMATCH[1]))
	failed=$((failed + BASH_REMATCH[2]))
else
	failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
