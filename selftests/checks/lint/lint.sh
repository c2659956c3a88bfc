#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the tree: checks format, lints and style. Usage:
# lint.sh LINUX-SOURCE KERNEL-BUILD MODULE, where MODULE is the directory of the module built for that kernel

# shellcheck source=selftests/checks/lint/tools.sh
. "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

linux=$1 kernel=$2 module=$3
mapfile -t tools < <(packaging/kernel-tools.sh "$kernel")
bad=0

check() {
	local what=$1
	shift
	if "$@" >/tmp/lint.out 2>&1; then
		echo "ok     $what"
	else
		echo "not ok $what"
		sed 's/^/    /' /tmp/lint.out
		bad=$((bad + 1))
	fi
}

# With the examples of the documentation, which nothing else compiles.
clippy() {
	mkdir -p out/clippy/src
	# A module that was built by the compiler proper, or with other lints, counts as built.
	rm -f out/clippy/src/*.o
	selftests/checks/lint/examples.py src >out/clippy/src/examples.rs || return 1
	# Warnings of the kernel's lint set are errors here.
	make -s -C "$kernel" M=/repo MO=/repo/out/clippy "${tools[@]}" CLIPPY=1 \
		RPCRDMA_RUSTFLAGS='-Dwarnings --cfg RPCRDMA_EXAMPLES' modules
}

# The variant without bitcode, for machines without clang or the kernel's own helpers. Built while the other checks run: the
# compiler of Rust uses one processor most of the time.
build_plain() {
	mkdir -p out/plain
	rm -f out/plain/src/*.o
	make -s -C "$kernel" M=/repo MO=/repo/out/plain "${tools[@]}" RPCRDMA_INLINE=n RPCRDMA_RUSTFLAGS='-Dwarnings' modules
}
build_plain >/tmp/plain.out 2>&1 &
plain=$!
plain_helpers() { wait "$plain" || { cat /tmp/plain.out && return 1; }; }

# Kbuild keeps a copy of the kernel's list of flags of GCC that clang does not understand, since headers packages lack
# the file that has it.
skipped_flags() {
	flags() { sed -n "/^$2 :=/,/[^\\\\]\$/p" "$1" | sed 's/.*:=//; s/\\$//' | tr -s ' \t' '\n' | grep . | sort -u; }
	local theirs ours lacking
	theirs=$(flags "$linux/rust/Makefile" bindgen_skip_c_flags)
	ours=$(flags Kbuild rpcrdma-skip-c-flags)
	lacking=$(comm -23 <(echo "$theirs") <(echo "$ours"))
	if [ -z "$theirs" ] || [ -n "$lacking" ]; then
		echo "bindgen_skip_c_flags of the kernel's rust/Makefile has what rpcrdma-skip-c-flags of Kbuild lacks:"
		echo "${lacking:-the list itself is not found}"
		return 1
	fi
}

# The pure core and the client forbid unsafe code themselves, which the compiler checks; this covers the other rooms.
unsafe_rooms() {
	local found
	found=$(git grep -nE '\bunsafe\b' -- src/proto src/client src/server src/server.rs src/link src/link.rs src/policy src/policy.rs src/config src/config.rs \
		src/rpcrdma_rs_main.rs |
		grep -vE '(forbid|deny)\(unsafe_code\)|^[^:]*:[0-9]+:\s*//' || true)
	[ -z "$found" ] || {
		echo "unsafe code outside the wrapper layers:"
		echo "$found"
		return 1
	}
}

# Forced inlining is for the two hot routes; architecture.rst has what it saves.
forced_inlining() {
	local found
	found=$(git grep -n 'inline(always)' -- src ':!src/client' ':!src/os' ':!src/proto' ':!src/sunrpc' ':!src/trace.rs' ':!src/verbs' \
		':!src/client.rs' ':!src/os.rs' ':!src/sunrpc.rs' ':!src/verbs.rs' || true)
	[ -z "$found" ] || {
		echo "forced inlining beside the hot routes:"
		echo "$found"
		return 1
	}
}

# Links of the documentation to files of the kernel.
srctree_links() {
	local found
	found=$(git grep -ohE 'srctree/[^)>]+' -- src | sort -u | while read -r link; do
		[ -e "$linux/${link#srctree/}" ] || echo "$link"
	done)
	[ -z "$found" ] || {
		echo "links to files that the kernel does not have:"
		echo "$found"
		return 1
	}
}

panic_paths() {
	local found
	# Tests stand last in their files.
	found=$(for f in $(git ls-files 'src/*.rs' 'src/**/*.rs'); do
		sed '/^mod tests/,$d' "$f" | grep -nE '\.unwrap\(\)|\.expect\(|\b(panic|todo|unimplemented|unreachable)!' |
			grep -vE '^[0-9]+:\s*//' | sed "s,^,$f:," || true
	done)
	[ -z "$found" ] || {
		echo "panic paths:"
		echo "$found"
		return 1
	}
}

# Panics that the compiler could not show to be impossible, checks of overflow among them: a call of a function of the
# core library that does not return. Assertions of tests may fail. The kernel crate adds one to the length of the name of
# a directory in configfs.
panic_calls() {
	local found
	found=$(llvm-objdump-19 --disassemble --reloc --demangle --no-show-raw-insn "$module/rpcrdma_rs.ko" |
		awk '/^[0-9a-f]+ <.*>:$/ { name = $0; code++ }
			/R_X86_64.*core::.*(panic|fail)/ && name !~ /::tests::/ && name !~ /<<kernel::configfs::.*make_group>/ { print name, $NF }
			END { if (code < 100) print "only", code + 0, "functions disassembled" }' | sort -u)
	[ -z "$found" ] || {
		echo "functions of the module that may panic, and how:"
		echo "$found"
		return 1
	}
}

line_lengths() {
	local found
	found=$(git ls-files 'src/*.rs' 'src/**/*.rs' | xargs awk 'length > 100 && !/^ *\/\/! \|/ { print FILENAME ":" FNR }')
	[ -z "$found" ] || {
		echo "lines over 100 columns:"
		echo "$found"
		return 1
	}
}

conformance() { (cd selftests && python3 -m checks.conformance --check); }

mutations() { (cd selftests && python3 -m checks.mutations --check); }

checkpatch() { "$linux/scripts/checkpatch.pl" --no-tree --no-summary --terse "$@"; }

# With matters of taste. What does not hold here has its reason in packaging/debian/*.lintian-overrides.
package() {
	packaging/deb.sh --source /tmp/deb &&
		lintian --allow-root --pedantic --display-info --fail-on=error,warning,info,pedantic /tmp/deb/*.changes
}

commits() {
	local bad=0 commit
	for commit in $(git rev-list -n 30 HEAD); do
		git format-patch -1 --stdout "$commit" >/tmp/commit.patch
		# Only the checks of the message: the sources are checked as they are now. The project signs nothing off.
		checkpatch --ignore MISSING_SIGN_OFF,NO_AUTHOR_SIGN_OFF,FILE_PATH_CHANGES,LONG_LINE,LONG_LINE_COMMENT,SPDX_LICENSE_TAG \
			/tmp/commit.patch | grep -E ':(BAD_COMMIT|COMMIT_|GIT_|Possible|Please use a|Unexpected|Use of .* commit)|^[^:]*-:' && bad=1
	done
	[ "$bad" -eq 0 ]
}

c_files() {
	git ls-files '*.c' '*.h' | while read -r file; do
		# A helper is declared by its name alone; the macro in front of it confuses the parser.
		checkpatch --ignore LINUX_VERSION_CODE,SPDX_LICENSE_TAG,LONG_LINE,FUNCTION_ARGUMENTS,INLINE_LOCATION --file "$file" || exit 1
	done
}

check "rustfmt, ruff format" selftests/checks/lint/fmt.sh "$linux" --check
check "clippy, kernel lint set, no warnings; the examples of the documentation" clippy
check "flags of GCC that Kbuild leaves out" skipped_flags
check "no unsafe code outside the wrapper layers" unsafe_rooms
check "no room uses one above it" selftests/checks/lint/arrows.py src
check "files, functions and types of a size to read" selftests/checks/lint/shape.py src
check "no test imports a test, and the map of selftests is whole" selftests/checks/lint/order.py selftests
check "no room has more indirect words than its limit" selftests/checks/lint/prose.py
check "forced inlining on the hot routes alone" forced_inlining
check "links to files of the kernel" srctree_links
check "no panic paths in kernel code" panic_paths
check "no calls to panic in the module" panic_calls
check "lines of kernel code up to 100 columns" line_lengths
check "conformance: each requirement, its place and its tests" conformance
check "defects that tests have to find can be put into the sources" mutations
check "the table of tested kernels" selftests/setup/series.py --check
check "lintian on the package" package
check "checkpatch on C" c_files
check "checkpatch on commit messages" commits
mapfile -t scripts < <(shell_files)
check "build with helpers as calls" plain_helpers
check "shellcheck" shellcheck -x "${scripts[@]}"
mapfile -t paths < <(python_paths)
[ "${#paths[@]}" -eq 0 ] || check "ruff" ruff check -q --line-length 120 "${paths[@]}"

[ "$bad" -eq 0 ] || {
	echo "$bad checks failed"
	exit 1
}
