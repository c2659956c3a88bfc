// SPDX-License-Identifier: GPL-2.0
/*
 * Instructions by context, not by function: a lock that the adapter takes is the
 * adapter's.
 *
 * A context begins where a function of the file of addresses is entered, and
 * ends where that returns to, with the stack pointer that it then has. Contexts
 * nest, and each task has its own; an interrupt ends in the task that it came
 * to. Inside the adapter nothing else begins, so most blocks have two
 * comparisons and no call: with the address of the awaited return, and of
 * "inside the adapter" at the adapter's functions.
 *
 * The file has a line "KIND ADDRESS" for each function, with KIND one of adapter,
 * send, reply, switch for the function that changes tasks, and exit for a
 * function that a task does not return from; and a line "register ADDRESS" for
 * the adapter's function that registers. It is removed when it has been read.
 * Written is "s KIND INSTRUCTIONS ENTRIES" for each kind.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"

enum kind { OTHER, SEND, REPLY, ADAPTER, SWITCH, EXIT, KINDS };

static const char *const kind_names[KINDS] = {
	"other", "send", "reply", "adapter", "switch", "exit",
};

#define HASH_BITS	14
#define HASH_SIZE	(1u << HASH_BITS)
#define MOST		(HASH_SIZE / 2)
#define DEPTH		4

/* Read and changed by the code of blocks itself. */
struct live {
	uint64_t insns;
	uint64_t awaited;
	uint64_t in_adapter;
};

struct probe {
	uint64_t addr;
	enum kind kind;
};

struct frame {
	enum kind kind;
	uint64_t ret;
	uint64_t sp;
};

struct task {
	uint64_t id;
	unsigned int depth;
	struct frame frames[DEPTH];
};

static const char *addresses;
static struct qemu_plugin_register *sp_reg, *prev_reg, *next_reg;
static struct qemu_plugin_scoreboard *board;

static struct probe probes[HASH_SIZE];
static uint64_t registers_at;
static struct task tasks[HASH_SIZE];
static unsigned int task_count;
static struct task unknown;
static struct task *current = &unknown;

static uint64_t settled;
static uint64_t insns[KINDS];
static uint64_t entries[KINDS];

static struct qemu_plugin_u64 place(size_t offset)
{
	return (struct qemu_plugin_u64){ board, offset };
}

static struct live *live(void)
{
	return qemu_plugin_scoreboard_find(board, 0);
}

static uint32_t hash(uint64_t value)
{
	return value * 0x9e3779b97f4a7c15ull >> (64 - HASH_BITS);
}

static struct probe *probe_of(uint64_t addr)
{
	uint32_t at = hash(addr);

	while (probes[at].addr && probes[at].addr != addr)
		at = (at + 1) & (HASH_SIZE - 1);
	return &probes[at];
}

static struct task *task_of(uint64_t id)
{
	uint32_t at = hash(id);

	while (tasks[at].id && tasks[at].id != id)
		at = (at + 1) & (HASH_SIZE - 1);
	if (!tasks[at].id) {
		if (++task_count == MOST)
			fail("too many tasks");
		tasks[at].id = id;
	}
	return &tasks[at];
}

static enum kind kind_of(const struct task *task)
{
	return task->depth ? task->frames[task->depth - 1].kind : OTHER;
}

/* Counts the instructions since the last change for the context of then. */
static void settle(void)
{
	uint64_t now = live()->insns;

	insns[kind_of(current)] += now - settled;
	settled = now;
}

/* Sets the address that the code of blocks waits for. */
static void arm(void)
{
	live()->awaited = current->depth ? current->frames[current->depth - 1].ret : 0;
	live()->in_adapter = kind_of(current) == ADAPTER;
}

static void on_entry(unsigned int cpu, void *data)
{
	const struct probe *probe = data;

	for (unsigned int i = 0; i < current->depth; i++)
		if (current->frames[i].kind == probe->kind || current->frames[i].kind == ADAPTER)
			return;
	if (current->depth == DEPTH)
		fail("contexts are nested too deep");
	settle();
	current->frames[current->depth++] = (struct frame){
		.kind = probe->kind,
		.ret = return_address(),
		.sp = read_register(sp_reg),
	};
	entries[probe->kind]++;
	arm();
}

static void on_return(unsigned int cpu, void *data)
{
	if (read_register(sp_reg) != current->frames[current->depth - 1].sp + 8)
		return;
	settle();
	current->depth--;
	arm();
}

static void on_switch(unsigned int cpu, void *data)
{
	settle();
	if (current == &unknown) {
		current = task_of(read_register(prev_reg));
		memcpy(current->frames, unknown.frames, sizeof(unknown.frames));
		current->depth = unknown.depth;
	}
	current = task_of(read_register(next_reg));
	entries[SWITCH]++;
	arm();
}

static void on_exit_of_task(unsigned int cpu, void *data)
{
	settle();
	current->depth = 0;
	entries[EXIT]++;
	arm();
}

void context_init(const char *file)
{
	addresses = file;
	board = qemu_plugin_scoreboard_new(sizeof(struct live));
}

void context_register(const char *name, struct qemu_plugin_register *reg)
{
	if (!strcmp(name, "rsp"))
		sp_reg = reg;
	else if (!strcmp(name, "rdi"))
		prev_reg = reg;
	else if (!strcmp(name, "rsi"))
		next_reg = reg;
}

bool context_load(void)
{
	FILE *file = fopen(addresses, "r");
	unsigned int count = 0;
	unsigned long addr;
	char name[16];

	if (!file)
		return false;
	memset(probes, 0, sizeof(probes));
	while (fscanf(file, "%15s %lx", name, &addr) == 2) {
		enum kind kind = SEND;

		if (!strcmp(name, "register")) {
			registers_at = addr;
			continue;
		}
		while (kind < KINDS && strcmp(name, kind_names[kind]))
			kind++;
		if (kind == KINDS || ++count == MOST)
			fail("bad or too many addresses");
		*probe_of(addr) = (struct probe){ addr, kind };
	}
	fclose(file);
	unlink(addresses);
	return true;
}

const char *context_now(void)
{
	return kind_names[kind_of(current)];
}

bool context_registers(uint64_t addr)
{
	return addr == registers_at;
}

void context_follow(struct qemu_plugin_tb *tb, uint64_t addr, size_t count)
{
	struct probe *probe = probe_of(addr);

	/* A context that ends or begins here does so before the block is counted. */
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_return, QEMU_PLUGIN_CB_R_REGS,
						  QEMU_PLUGIN_COND_EQ,
						  place(offsetof(struct live, awaited)), addr, NULL);
	if (probe->addr && probe->kind == SWITCH)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_switch, QEMU_PLUGIN_CB_R_REGS, NULL);
	else if (probe->addr && probe->kind == EXIT)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_exit_of_task, QEMU_PLUGIN_CB_NO_REGS,
						     NULL);
	else if (probe->addr)
		qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_entry, QEMU_PLUGIN_CB_R_REGS,
							  QEMU_PLUGIN_COND_EQ,
							  place(offsetof(struct live, in_adapter)),
							  0, probe);
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
							  place(offsetof(struct live, insns)),
							  count);
}

void context_start(void)
{
	settled = live()->insns;
	memset(insns, 0, sizeof(insns));
	memset(entries, 0, sizeof(entries));
}

void context_write(FILE *file)
{
	settle();
	for (enum kind kind = OTHER; kind < KINDS; kind++)
		fprintf(file, "s %s %llu %llu\n", kind_names[kind],
			(unsigned long long)insns[kind], (unsigned long long)entries[kind]);
}
