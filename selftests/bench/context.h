/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The context that the guest's kernel executes in: in the software adapter and
 * its network, or else under the lock that serializes a connection's sends, or in
 * the handler of its completions.
 */
#ifndef BENCH_CONTEXT_H
#define BENCH_CONTEXT_H

#include <stdio.h>

#include "qemu-plugin.h"

/* The name of the file that the addresses come in, and the registers of the guest. */
void context_init(const char *file);
void context_register(const char *name, struct qemu_plugin_register *reg);

/* True when new addresses have come: blocks translated before lack them. */
bool context_load(void);

/* Follows a translated block of the kernel. */
void context_follow(struct qemu_plugin_tb *tb, uint64_t addr, size_t insns);

/* The name of the context that is executing. */
const char *context_now(void);

/* True for the address of the function that registers memory for the adapter. */
bool context_registers(uint64_t addr);

/* Begins to count, and writes the counts since then. */
void context_start(void);
void context_write(FILE *file);

uint64_t read_register(struct qemu_plugin_register *reg);
uint64_t return_address(void);
void fail(const char *why);

#endif /* BENCH_CONTEXT_H */
