// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU's emulator that counts the instructions of a guest with one CPU.
 *
 * Every translated block of the kernel has a counter of its own, every block of
 * user space one in common. Blocks have a known number of instructions and end
 * at every jump, so the counters give instructions exactly, by function, and
 * how often each function was entered. An idle CPU executes nothing and costs
 * nothing.
 *
 * The guest begins and ends a count by two instructions that do nothing (see
 * mark.h): START remembers the counters, STOP writes the difference since then
 * to a new file, OUT.1, OUT.2 and so on:
 *
 *	user INSTRUCTIONS
 *	b ADDRESS INSTRUCTIONS-OF-THE-BLOCK EXECUTIONS
 *	c ADDRESS RETURN-ADDRESS CALLS BYTES KIND
 *	r BYTES
 *	s KIND INSTRUCTIONS ENTRIES
 *
 * (b: a block; c: a copying function, its caller and the context of the call;
 * the first two numbers of such a line are hexadecimal; r: memory that was
 * registered; s: a context of the kernel, see context.c, whose addresses come
 * in the file OUT.contexts).
 *
 * Arguments: out=OUT, and copy=ADDRESS:REGISTER any number of times for
 * functions of the kernel that copy as many bytes as REGISTER holds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "mark.h"
#include "qemu-plugin.h"

#define BLOCKS		(1u << 19)
#define HASH_BITS	20
#define HASH_SIZE	(1u << HASH_BITS)
#define MAX_PROBES	16
#define MAX_COPIES	4096

/*
 * Offsets of the region that soft-RoCE's work request registers, in struct
 * rxe_send_wqe, and of the length of a region, in struct ib_mr.
 */
#define WQE_REG_MR	24
#define MR_LENGTH	32
#define MAX_LENGTH	(1ull << 30)

struct block {
	uint64_t addr;
	uint32_t insns;
	uint64_t base;
};

struct probe {
	uint64_t addr;
	char reg_name[8];
	struct qemu_plugin_register *reg;
};

/* Bytes copied, by function that copied, place that called it and context. */
struct copies {
	uint64_t addr;
	uint64_t caller;
	const char *kind;
	uint64_t calls;
	uint64_t bytes;
};

EXPORT int qemu_plugin_version = 4;

static uint64_t plugin;
static const char *out = "count.out";
static char contexts[4096];
static unsigned int files;
static bool counting;

/* blocks[0] is user space, whose instructions are counted. */
static struct block blocks[BLOCKS];
static uint32_t block_count = 1;
static uint32_t hash[HASH_SIZE];
static struct qemu_plugin_scoreboard *board;

static struct probe probes[MAX_PROBES];
static unsigned int probe_count;
static struct copies copied[MAX_COPIES];
static unsigned int copied_count;
static struct qemu_plugin_register *stack_pointer;
static struct qemu_plugin_register *second_argument;
static uint64_t registered;
static struct g_byte_array *buffer;

void fail(const char *why)
{
	qemu_plugin_outs(why);
	fprintf(stderr, "count: %s\n", why);
	exit(1);
}

static uint64_t *counters(void)
{
	return qemu_plugin_scoreboard_find(board, 0);
}

static uint32_t block_of(uint64_t addr, uint32_t insns)
{
	uint64_t mix = (addr + ((uint64_t)insns << 48)) * 0x9e3779b97f4a7c15ull;
	uint32_t at = mix >> (64 - HASH_BITS);

	for (;; at = (at + 1) & (HASH_SIZE - 1)) {
		uint32_t i = hash[at];

		if (i && blocks[i].addr == addr && blocks[i].insns == insns)
			return i;
		if (i)
			continue;
		if (block_count == BLOCKS)
			fail("too many blocks");
		i = hash[at] = block_count++;
		blocks[i].addr = addr;
		blocks[i].insns = insns;
		return i;
	}
}

uint64_t read_register(struct qemu_plugin_register *reg)
{
	uint64_t value = 0;

	g_byte_array_set_size(buffer, 0);
	qemu_plugin_read_register(reg, buffer);
	memcpy(&value, buffer->data, buffer->len < 8 ? buffer->len : 8);
	return value;
}

static uint64_t read_memory(uint64_t addr)
{
	uint64_t value = 0;

	g_byte_array_set_size(buffer, 0);
	if (qemu_plugin_read_memory_vaddr(addr, buffer, 8))
		memcpy(&value, buffer->data, 8);
	return value;
}

uint64_t return_address(void)
{
	return read_memory(read_register(stack_pointer));
}

static void on_copy(unsigned int cpu, void *data)
{
	struct probe *probe = data;
	struct copies *c = copied;
	const char *kind;
	uint64_t caller;

	if (!counting)
		return;
	kind = context_now();
	caller = return_address();
	while (c < copied + copied_count &&
	       (c->addr != probe->addr || c->caller != caller || c->kind != kind))
		c++;
	if (c == copied + MAX_COPIES)
		fail("too many callers of copy functions");
	if (c == copied + copied_count) {
		copied_count++;
		*c = (struct copies){ .addr = probe->addr, .caller = caller, .kind = kind };
	}
	c->calls++;
	c->bytes += read_register(probe->reg);
}

/* The second argument of the function that registers is its work request. */
static void on_registration(unsigned int cpu, void *data)
{
	uint64_t length;

	if (!counting)
		return;
	length = read_memory(read_memory(read_register(second_argument) + WQE_REG_MR) + MR_LENGTH);
	if (!length || length > MAX_LENGTH)
		fail("a registered region has no length where it is looked for");
	registered += length;
}

static void follow(uint64_t id);

static void on_start(unsigned int cpu, void *data)
{
	uint64_t *now = counters();

	if (context_load())
		qemu_plugin_reset(plugin, follow);
	context_start();
	for (uint32_t i = 0; i < block_count; i++)
		blocks[i].base = now[i];
	copied_count = 0;
	registered = 0;
	counting = true;
}

static void on_stop(unsigned int cpu, void *data)
{
	uint64_t *now = counters();
	char name[4096], partial[4096];
	FILE *file;

	if (!counting)
		return;
	counting = false;
	snprintf(name, sizeof(name), "%s.%u", out, ++files);
	snprintf(partial, sizeof(partial), "%s.partial", out);
	file = fopen(partial, "w");
	if (!file)
		fail("cannot write");
	fprintf(file, "user %llu\n", (unsigned long long)(now[0] - blocks[0].base));
	for (uint32_t i = 1; i < block_count; i++)
		if (now[i] != blocks[i].base)
			fprintf(file, "b %llx %x %llu\n",
				(unsigned long long)blocks[i].addr,
				blocks[i].insns,
				(unsigned long long)(now[i] - blocks[i].base));
	for (struct copies *c = copied; c < copied + copied_count; c++)
		fprintf(file, "c %llx %llx %llu %llu %s\n",
			(unsigned long long)c->addr,
			(unsigned long long)c->caller,
			(unsigned long long)c->calls,
			(unsigned long long)c->bytes, c->kind);
	fprintf(file, "r %llu\n", (unsigned long long)registered);
	context_write(file);
	if (fclose(file) || rename(partial, name))
		fail("cannot write");
}

static void look_for_marks(struct qemu_plugin_tb *tb, size_t insns)
{
	uint8_t data[sizeof(mark_start_bytes)];

	for (size_t i = 0; i < insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_data(insn, data, sizeof(data)) < sizeof(data))
			continue;
		if (!memcmp(data, mark_start_bytes, sizeof(data)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_start,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		else if (!memcmp(data, mark_stop_bytes, sizeof(data)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_stop,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *tb)
{
	uint64_t addr = qemu_plugin_tb_vaddr(tb);
	size_t insns = qemu_plugin_tb_n_insns(tb);
	bool kernel = addr >> 63;
	uint32_t i = kernel ? block_of(addr, insns) : 0;
	struct qemu_plugin_u64 to = { board, i * sizeof(uint64_t) };

	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
							  to, kernel ? 1 : insns);
	if (!kernel) {
		look_for_marks(tb, insns);
		return;
	}
	context_follow(tb, addr, insns);
	if (context_registers(addr))
		qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, 0),
						       on_registration, QEMU_PLUGIN_CB_R_REGS,
						       NULL);
	for (struct probe *p = probes; p < probes + probe_count; p++)
		if (p->addr == addr)
			qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, 0),
							       on_copy, QEMU_PLUGIN_CB_R_REGS, p);
}

static void on_vcpu(uint64_t id, unsigned int cpu)
{
	struct g_array *all = qemu_plugin_get_registers();
	struct qemu_plugin_reg_descriptor *regs = (void *)all->data;

	if (cpu)
		fail("this counts one CPU only");
	for (unsigned int i = 0; i < all->len; i++) {
		if (!strcmp(regs[i].name, "rsp"))
			stack_pointer = regs[i].handle;
		if (!strcmp(regs[i].name, "rsi"))
			second_argument = regs[i].handle;
		context_register(regs[i].name, regs[i].handle);
		for (struct probe *p = probes; p < probes + probe_count; p++)
			if (!strcmp(regs[i].name, p->reg_name))
				p->reg = regs[i].handle;
	}
	for (struct probe *p = probes; p < probes + probe_count; p++)
		if (!p->reg)
			fail("no such register");
}

/* Blocks translated from here on are counted. */
static void follow(uint64_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
}

EXPORT int qemu_plugin_install(uint64_t id, const struct qemu_info *info,
			       int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		struct probe *p = &probes[probe_count];

		if (!strncmp(argv[i], "out=", 4))
			out = argv[i] + 4;
		else if (probe_count < MAX_PROBES &&
			 sscanf(argv[i], "copy=%lx:%7s", &p->addr, p->reg_name) == 2)
			probe_count++;
		else
			return -1;
	}
	plugin = id;
	snprintf(contexts, sizeof(contexts), "%s.contexts", out);
	context_init(contexts);
	buffer = g_byte_array_new();
	board = qemu_plugin_scoreboard_new(BLOCKS * sizeof(uint64_t));
	qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
	follow(id);
	return 0;
}
