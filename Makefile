# SPDX-License-Identifier: GPL-2.0
#
# Targets for people; Kbuild is what the kernel's build system reads. `make help` lists them.
#
# Without KDIR everything is built and tested against kernels that the set-up makes; with KDIR=/path/to/kernel/build
# the module is built here, by this machine's tools, for that kernel.

.DEFAULT_GOAL := modules
.PHONY: help modules modules_install setup setup-debug demo test test-host test-kunit test-vm test-debug bench lint fmt docs clean
# Each of the targets uses all processors by itself.
.NOTPARALLEL:

selftests := selftests
setup := $(selftests)/setup/setup.sh
enter := $(selftests)/setup/enter.sh
harness := $(selftests)/harness/run.sh

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z_-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Variables: KDIR=build directory of your own kernel; LINUX=7.2|7.3 for the test kernels;'
	@echo '  RPCRDMA_CACHE=directory for what the set-up makes (8 GB; default ~/.cache/rpcrdma-rs);'
	@echo '  TESTS="pattern..." picks VM tests; ROWS="pattern..." picks rows of the comparison;'
	@echo '  RPCRDMA_ACCEL=tcg|kvm overrides the choice of the harness'

ifdef KDIR
# A kernel built by clang needs its modules built by clang, too; LLVM=-19 picks a version.
kbuild = $(MAKE) -C "$(KDIR)" M="$(CURDIR)" MO="$(CURDIR)/out/kdir" \
	$(if $(shell grep -s '^CONFIG_CC_IS_CLANG=y' $(KDIR)/.config),LLVM=$(or $(LLVM),1))

modules: ## Build rpcrdma_rs.ko (for the test kernel, or with KDIR for your own)
	@$(selftests)/setup/check-kdir.sh "$(KDIR)"
	@mkdir -p out/kdir
	$(kbuild) modules
	@echo 'the module is out/kdir/rpcrdma_rs.ko'

modules_install: modules ## Install the module for the kernel in KDIR (as root)
	$(kbuild) modules_install
else
modules: setup
	@$(selftests)/setup/build.sh test

modules_install:
	@echo 'error: say which kernel to install for: make modules_install KDIR=/lib/modules/$$(uname -r)/build' >&2; exit 1
endif

setup: ## Make this machine ready to build and test (done by the targets that need it)
	@$(setup) host tree linux kernel

setup-debug: setup
	@$(setup) kernel-debug

demo: modules ## Mount an export over the module in two virtual machines and show what happens
	@$(harness) demo

test: modules ## Run all tests: host, KUnit and VM
	@$(selftests)/run.sh host kunit vm

test-host: setup ## Run the tests of the protocol core on this machine
	@$(selftests)/run.sh host

test-kunit: modules ## Run the tests of the protocol core in a kernel
	@$(selftests)/run.sh kunit

test-vm: modules ## Run the tests that need virtual machines
	@$(selftests)/run.sh vm

test-debug: setup-debug ## Run the VM tests, with less data, on a kernel that looks for bugs
	@$(selftests)/setup/build.sh test # for the server
	@$(selftests)/setup/build.sh debug
	@$(selftests)/run.sh kunit-debug vm-debug

bench: modules ## Compare the module with the in-tree client, in instructions per operation (20 to 40 minutes)
	@$(selftests)/bench/run.sh $(ROWS)

lint: modules ## Check format, lints and style of everything
	@$(enter) selftests/lint/lint.sh "$$($(setup) --path linux)" "$$($(setup) --path kernel)"

fmt: setup ## Format the Rust and Python sources
	@$(enter) selftests/lint/fmt.sh "$$($(setup) --path linux)"

docs: modules ## Build the documentation of the code under out/doc
	@$(enter) selftests/lint/docs.sh "$$($(setup) --path kernel)"

clean: ## Remove what was built here (the cache stays)
	rm -rf out
	find . -path ./.git -prune -o \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
		-o -name '*.bc' -o -name '*.rmeta' -o -name '.*.d' -o -name modules.order -o -name Module.symvers \) -exec rm -f {} +
	rm -f src/bindings_generated.rs src/bindings_helpers.rs
