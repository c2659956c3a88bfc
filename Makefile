# SPDX-License-Identifier: GPL-2.0
#
# Targets for people; Kbuild is what the kernel's build system reads. `make help` lists them.
#
# Without KDIR everything is built and tested against kernels that the set-up makes; with KDIR=/path/to/kernel/build
# the module is built here, by this machine's tools, for that kernel.

.DEFAULT_GOAL := modules
.PHONY: help modules prepare modules_install uninstall install-tools uninstall-tools setup setup-kernel setup-debug setup-native setup-native-debug demo test test-host \
	test-kunit test-vm test-native test-debug test-debug-rest test-package test-mutations test-vng soak vng deb bench lint fmt conformance docs clean
# Each of the targets uses all processors by itself.
.NOTPARALLEL:

selftests := selftests
setup := $(selftests)/setup/setup.sh
enter := $(selftests)/setup/enter.sh
harness := $(selftests)/guests/run.sh

# The kernel that the guests boot: `stock` is Debian's, as shipped; `test` is built here, with .config.fragment; `native` is
# built here, too, and a program. Without one that is named, `test` has the tests run natively, and then on Debian's kernel
# those that need it and the core.
vm-parts := $(if $(KERNEL),vm kunit $(if $(filter stock,$(KERNEL)),vng),native kunit vm-stock vng)
vm-setup := $(if $(KERNEL),,setup-native)
KERNEL ?= stock
export KERNEL
$(if $(filter stock test native,$(KERNEL)),,$(error KERNEL is stock, test or native, not '$(KERNEL)'))
# Its step of the set-up, and where modules for it are built.
step-of-test := kernel
step-of-native := kernel-native
kernel-step := $(or $(step-of-$(KERNEL)),stock)
kernel-build = $$($(setup) --path $(or $(step-of-$(KERNEL)),kernel-stock))$(if $(filter stock,$(KERNEL)),/kdir)

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z_-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Variables: KDIR=build directory of your own kernel; SOURCE=its source, for prepare;'
	@echo '  RPCRDMA_INLINE=n builds C helpers as calls;'
	@echo "  KERNEL=stock|test|native: the guests boot Debian's kernel, or one that is built here (15 minutes, once), or are that"
	@echo '    kernel as a process; the default is stock, and for `make test` native, with some of the tests on stock, too;'
	@echo '  RPCRDMA_CACHE=directory for what the set-up makes (12 GB; default ~/.cache/rpcrdma-rs);'
	@echo '  TESTS="pattern..." picks VM tests; ROWS="pattern..." picks rows of the comparison; DEFECTS="pattern..." defects;'
	@echo '  LANES=n runs the tests of native guests in n pairs at once (default: the processors and one);'
	@echo '  RESUME=y leaves out VM tests that the same module has passed in an earlier run with RESUME=y;'
	@echo '  TAP=directory gets the results of VM tests in the format of the kernel (KTAP), too;'
	@echo '  RPCRDMA_ACCEL=tcg|kvm overrides the choice of the harness'

ifdef KDIR
# These test what was built for the kernels of the set-up, which is another module.
without-kdir := demo test test-host test-kunit test-vm test-debug test-mutations bench lint docs setup setup-kernel \
	setup-debug setup-native setup-native-debug test-native test-debug-rest soak
$(foreach goal,$(filter $(without-kdir),$(MAKECMDGOALS)),$(error '$(goal)' is for the kernels of the set-up: call it without KDIR))

# KDIR, or what `make prepare` has made of it where it lacks Rust metadata; with the tools that built the kernel.
in_kdir = kdir=$$(packaging/prepare.sh --check "$(KDIR)" 2>/dev/null || echo "$(KDIR)") && \
	packaging/check-kdir.sh "$$kdir" && tools=$$(packaging/kernel-tools.sh "$$kdir")
kbuild = $(MAKE) -C "$$kdir" M="$(CURDIR)" MO="$(CURDIR)/out/kdir" $$tools

modules: ## Build rpcrdma_rs.ko (for the guests, or with KDIR for your own kernel)
	@mkdir -p out/kdir
	+@$(in_kdir) && $(kbuild) $(if $(filter --jobserver-auth=%,$(MAKEFLAGS)),,-j$$(nproc)) modules
	@packaging/check-module.sh out/kdir/rpcrdma_rs.ko
	@echo 'the module is out/kdir/rpcrdma_rs.ko'

prepare: ## Rebuild the Rust metadata that the headers in KDIR lack, from the kernel's source
	@packaging/prepare.sh $(if $(SOURCE),--source "$(SOURCE)") "$(KDIR)"

release = $$(cat "$(KDIR)/include/config/kernel.release")

modules_install: ## Install what was built for KDIR and have modprobe prefer it (as root)
	@packaging/install.sh out/kdir/rpcrdma_rs.ko "$(release)"

uninstall: ## Undo modules_install (as root)
	@packaging/install.sh --uninstall "$(release)"
else
modules: setup
	@$(selftests)/setup/build.sh $(KERNEL)

prepare:
	@echo 'error: say which kernel to prepare for: make prepare KDIR=/lib/modules/$$(uname -r)/build' >&2; exit 1

modules_install uninstall:
	@echo 'error: say for which kernel: make $@ KDIR=/lib/modules/$$(uname -r)/build' >&2; exit 1
endif

install-tools: ## Install the command rpcrdma, manual pages and the rule for udev (as root; PREFIX=/usr/local)
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" packaging/install-tools.sh

uninstall-tools: ## Undo install-tools (as root)
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" packaging/install-tools.sh --uninstall

setup: ## Make this machine ready to build and test (done by the targets that need it)
	@$(setup) host tree linux $(kernel-step)

setup-kernel: # what is only for the kernel that is built here
	@$(setup) host tree linux kernel
	@$(selftests)/setup/build.sh test

setup-debug: setup
	@$(setup) kernel-debug

setup-native: setup
	@$(setup) kernel-native
	@$(selftests)/setup/build.sh native

setup-native-debug: setup-native
	@$(setup) kernel-native-debug
	@$(selftests)/setup/build.sh native-debug

demo: modules ## Mount an export over the module in two virtual machines and show what happens (SERVER=ours: both ends; CLIENT=in-tree)
	@$(harness) demo $(if $(SERVER),--server $(SERVER)) $(if $(CLIENT),--client $(CLIENT))

test: modules $(vm-setup) ## Run all tests: host, packaging, VM, KUnit and virtme-ng
	@$(selftests)/run.sh host tool packaging $(vm-parts)

test-host: setup ## Run the tests of the protocol core and of the command rpcrdma on this machine
	@$(selftests)/run.sh host tool

test-kunit: ## Run the tests of the protocol core in a kernel
	@$(selftests)/run.sh kunit

test-vm: modules ## Run the tests that need virtual machines
	@$(selftests)/run.sh vm

test-native: setup-native ## Run the VM and KUnit tests in guests that are processes of this machine
	@$(selftests)/run.sh native kunit

test-debug: setup-native-debug ## Run the VM and KUnit tests, with less data, natively on a kernel that looks for bugs
	@$(selftests)/run.sh kunit-debug native-debug

test-debug-rest: setup-debug ## Run those that native guests cannot, emulated, on a kernel that looks for bugs
	@$(selftests)/setup/build.sh $(KERNEL:native=stock) # for the server
	@$(selftests)/setup/build.sh debug
	@$(selftests)/run.sh vm-debug

test-mutations: modules setup-native ## Break the sources in known ways, one by one, and see that tests find each
	@$(selftests)/checks/mutations/run.sh $(DEFECTS)

soak: setup-native ## Hunt for races in native guests, for MINUTES=10, SERVER=ours as well; SEED=number repeats what a finding says
	@$(selftests)/soak/run.sh --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(SERVER),--server $(SERVER))

test-vng: modules ## Run the test of 'make vng'
	@$(selftests)/run.sh vng

# Taken as it is written, so that a dollar sign is one.
export VNG_RUN := $(value RUN)

vng: modules setup ## Boot a client under virtme-ng with an export mounted, for a shell; RUN='command' runs that instead
	@$(if $(KDIR),KDIR="$(KDIR)") $(selftests)/setup/vng/run.sh $(if $(VNG_RUN),-- "$$VNG_RUN")

deb: ## Build the Debian package of the module, for DKMS, under out/deb
	@if command -v dh_dkms >/dev/null; then packaging/deb.sh out/deb; \
	else $(setup) host tree && $(enter) packaging/deb.sh out/deb; fi

test-package: setup deb ## Install the package on a bare Debian machine and boot that in a guest (root, 15 minutes)
	@$(selftests)/setup/package/run.sh

bench: modules $(if $(ROWS),,setup-native) ## Compare the module with the in-tree one, in instructions per operation and by the clock (SIDE=server: the server; 60 minutes)
	@$(selftests)/bench/run.sh --kernel $(KERNEL) $(if $(SIDE),--side $(SIDE)) $(ROWS)

lint: modules ## Check format, lints and style of everything
	@$(enter) selftests/checks/lint/lint.sh "$$($(setup) --path linux)" "$(kernel-build)" out/$(KERNEL)

fmt: setup ## Format the Rust and Python sources
	@$(enter) selftests/checks/lint/fmt.sh "$$($(setup) --path linux)"

conformance: ## Write Documentation/conformance.rst from what code and tests cite
	@cd $(selftests) && python3 -m checks.conformance

docs: modules ## Build the documentation of the code under out/doc
	@$(enter) selftests/checks/lint/docs.sh "$(kernel-build)" out/$(KERNEL)

clean: ## Remove what was built here (the cache stays)
	rm -rf out
	find . -path ./.git -prune -o \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
		-o -name '*.bc' -o -name '*.rmeta' -o -name '.*.d' -o -name modules.order -o -name Module.symvers \) -exec rm -f {} +
	rm -f src/bindings_generated.rs src/bindings_helpers.rs
