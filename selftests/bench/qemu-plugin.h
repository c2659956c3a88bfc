/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's plugin interface, version 4 (QEMU 9.2 and later), that count.c uses.
 *
 * The guest tree has QEMU without its development header, so these few
 * declarations follow QEMU's documentation of the interface.
 */
#ifndef BENCH_QEMU_PLUGIN_H
#define BENCH_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_register;
struct qemu_plugin_scoreboard;
struct qemu_info;

/* A counter per virtual CPU: a place in each CPU's part of a scoreboard. */
struct qemu_plugin_u64 {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
};

struct qemu_plugin_reg_descriptor {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
};

/* Two types of GLib that the interface uses. */
struct g_array {
	char *data;
	unsigned int len;
};

struct g_byte_array {
	uint8_t *data;
	unsigned int len;
};

enum { QEMU_PLUGIN_INLINE_ADD_U64 };
enum { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum { QEMU_PLUGIN_COND_NEVER, QEMU_PLUGIN_COND_ALWAYS, QEMU_PLUGIN_COND_EQ };

typedef void (*tb_trans_fn)(uint64_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_fn)(uint64_t id, unsigned int cpu);
typedef void (*exec_fn)(unsigned int cpu, void *data);
typedef void (*simple_fn)(uint64_t id);

void qemu_plugin_outs(const char *text);
void qemu_plugin_reset(uint64_t id, simple_fn fn);
void qemu_plugin_register_vcpu_init_cb(uint64_t id, vcpu_fn fn);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, tb_trans_fn fn);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb,
						       int op,
						       struct qemu_plugin_u64 to,
						       uint64_t amount);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_fn fn,
					  int flags, void *data);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *tb,
					       exec_fn fn, int flags, int cond,
					       struct qemu_plugin_u64 left,
					       uint64_t right, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    exec_fn fn, int flags, void *data);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to,
			     size_t len);

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score,
				  unsigned int cpu);

struct g_array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *reg,
			      struct g_byte_array *to);
bool qemu_plugin_read_memory_vaddr(uint64_t addr, struct g_byte_array *to,
				   size_t len);
struct g_byte_array *g_byte_array_new(void);
struct g_byte_array *g_byte_array_set_size(struct g_byte_array *array,
					   unsigned int len);

#endif /* BENCH_QEMU_PLUGIN_H */
