#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: builds the documentation of the code, private items included, under out/doc, with the flags that the
# kernel's build system compiled the module with. Usage: docs.sh KERNEL-BUILD MODULE, where MODULE
# is the directory of the module built for that kernel

set -euo pipefail

kernel=$1 module=/repo/$2
saved=$module/src/.rpcrdma_rs_main.o.cmd
# The first command of the saved line is the compiler's; its options about output do not apply.
command=$(sed -n 's/^savedcmd_[^ ]* := //p' "$saved" | sed 's/ && .*//; s/ *; .*//')
command=$(printf '%s' "$command" | sed -E \
	's/ --emit=[^ ]+//g; s/ --out-dir [^ ]+//; s/ --crate-type [^ ]+//; s/ -C[a-z-]*(lto|codegen-units|opt-level)[^ ]*//g; s/(^| )rustc /\1rustdoc /; s/ --env-set [^ ]+//g')
cd "$kernel"
eval "RUSTC_BOOTSTRAP=1 RPCRDMA_RS_OUT=$module/src $command --document-private-items -A rustdoc::private_intra_doc_links -o /repo/out/doc"
# Links to the kernel's own files, as in the documentation of its Rust code.
version=$(sed 's/[^0-9.].*//' include/config/kernel.release)
find /repo/out/doc -name '*.html' -print0 | xargs -0 sed -Ei \
	"s,<a href=\"srctree/([^\"]+)\">,<a href=\"https://git.kernel.org/pub/scm/linux/kernel/git/stable/linux.git/tree/\1?h=v$version\">,g"
echo "the documentation starts at out/doc/rpcrdma_rs/index.html"
