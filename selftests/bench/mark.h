/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two instructions that do nothing and occur nowhere else: long no-ops whose
 * unused address is a number of our own. The program in the guest executes them,
 * the plugin of the emulator waits for them.
 */
#ifndef BENCH_MARK_H
#define BENCH_MARK_H

#include <stdint.h>

/* nopl 0x62636e01(%rax) and nopl 0x62636e02(%rax) */
static const uint8_t mark_start_bytes[] = { 0x0f, 0x1f, 0x80, 0x01, 0x6e, 0x63, 0x62 };
static const uint8_t mark_stop_bytes[] = { 0x0f, 0x1f, 0x80, 0x02, 0x6e, 0x63, 0x62 };

static inline void mark_start(void)
{
	asm volatile("nopl 0x62636e01(%%rax)" : : : "memory");
}

static inline void mark_stop(void)
{
	asm volatile("nopl 0x62636e02(%%rax)" : : : "memory");
}

#endif /* BENCH_MARK_H */
