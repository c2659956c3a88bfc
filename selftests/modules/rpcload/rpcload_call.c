// SPDX-License-Identifier: GPL-2.0
/* One call of rpcload.ko: its shape in its buffers, its encoding and decoding. */

#include <linux/slab.h>
#include <linux/sort.h>

#include "rpcload_client.h"

#define MAX_PART	SZ_32K	/* bytes of data in the head, and in the tail, of RPCLOAD_PARTS */

#define NFS_PROGRAM	100003
#define NFS_VERSION	3

/* Divides len bytes of data among the parts of a buffer. */
struct rpcload_split rpcload_split(const struct rpcload_shape *shape, u32 len)
{
	struct rpcload_split split = {};

	switch (shape->in) {
	case RPCLOAD_HEAD:
		split.head = len;
		break;
	case RPCLOAD_PAGES:
		split.pages = len;
		break;
	case RPCLOAD_TAIL:
		split.tail = len;
		break;
	case RPCLOAD_PARTS:
		/* Padding may come only at the end: the first two are whole words. */
		split.head = min(len / 3, MAX_PART) & ~3;
		split.pages = (len - 2 * split.head) & ~3;
		split.tail = len - split.head - split.pages;
		break;
	}
	return split;
}

/* The pages that all calls of a run can do with. */
u32 rpcload_pages_of(const struct rpcload_shape *shape, u32 vary)
{
	/* Any call of a varied run may have all of its data there. */
	u32 bytes = vary ? shape->room : rpcload_split(shape, shape->room).pages;

	return DIV_ROUND_UP(shape->base + bytes, PAGE_SIZE);
}

/* The last one in memory first: none follows the one before it. */
static int compare_backwards(const void *a, const void *b)
{
	const unsigned long first = page_to_pfn(*(struct page **)a);
	const unsigned long second = page_to_pfn(*(struct page **)b);

	return (first < second) - (first > second);
}

/* A null pointer ends the array, so that half of one can be freed as well. */
static bool alloc_pages_of(struct page ***array, u32 n, enum rpcload_memory memory)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
	struct page **pages = kvzalloc_objs(struct page *, n + 1);
	void *block;
	u32 i;

	*array = pages;
	if (!pages)
		return false;
	if (memory == RPCLOAD_CONTIGUOUS && n) {
		/* Each page of it can be freed by itself. */
		block = alloc_pages_exact(n * PAGE_SIZE, gfp);
		for (i = 0; block && i < n; i++)
			pages[i] = virt_to_page(block + i * PAGE_SIZE);
		return block;
	}
	for (i = 0; i < n; i++) {
		pages[i] = alloc_page(gfp);
		if (!pages[i])
			return false;
	}
	if (memory == RPCLOAD_SCATTERED)
		sort(pages, n, sizeof(*pages), compare_backwards, NULL);
	return true;
}

static void free_pages_of(struct page **pages)
{
	u32 i;

	for (i = 0; pages && pages[i]; i++)
		__free_page(pages[i]);
	kvfree(pages);
}

/* Allocates all that the calls of a run need; false when memory is short. */
bool rpcload_call_init(struct rpcload_call *call, const struct rpcload_params *params)
{
	u32 pages = 0, reply_pages = 0;

	call->params = params;
	if (params->proc == RPCLOAD_ECHO) {
		pages = rpcload_pages_of(&params->call, params->vary);
		reply_pages = rpcload_pages_of(&params->reply, params->vary);
	}
	return alloc_pages_of(&call->call_pages, pages, params->memory) &&
	       alloc_pages_of(&call->reply_pages, reply_pages, params->memory);
}

void rpcload_call_exit(struct rpcload_call *call)
{
	free_pages_of(call->call_pages);
	free_pages_of(call->reply_pages);
}

/* Spoils the byte to be spoilt if it is among the n from offset on. */
static void spoil(const struct rpcload_call *call, u8 *to, u32 n, u32 offset)
{
	u32 at = rpcload_spoilt(call->call.len);

	if (call->params->flip == RPCLOAD_FLIP_CALL && at >= offset && at - offset < n)
		to[at - offset] ^= 1;
}

static void fill_pages(struct rpcload_call *call)
{
	u32 first = call->call_split.head, n = call->call_split.pages, base = call->call.base;
	u32 at = rpcload_spoilt(call->call.len);

	rpcload_fill_pages(call->call_pages, base, n, call->seed, first);
	if (at >= first && at - first < n) {
		base += at - first;
		spoil(call, page_address(call->call_pages[base >> PAGE_SHIFT]) +
			    offset_in_page(base), 1, at);
	}
}

/* Gives a message of a varied run a size, a place and a mark of its own. */
static void vary(struct rpcload_shape *shape, u64 random)
{
	u32 bits = (random >> 32) % 22;

	/* Small ones are as frequent as large ones. */
	shape->len = min((u32)random & (BIT(bits) - 1), shape->len);
	shape->room = shape->len;
	shape->in = (random >> 40) % 4;
	if ((shape->in == RPCLOAD_HEAD || shape->in == RPCLOAD_TAIL) &&
	    shape->len > RPCLOAD_MAX_KVEC)
		shape->in = RPCLOAD_PAGES;
	shape->ddp = shape->in == RPCLOAD_PAGES && (random >> 48) % 2;
}

static u32 flags_of(const struct rpcload_call *call)
{
	u32 flags = 0;

	if (call->reply.in == RPCLOAD_PAGES)
		flags |= RPCLOAD_IN_PAGES;
	if (call->reply.in == RPCLOAD_PARTS)
		flags |= RPCLOAD_IN_PARTS;
	if (call->params->verify)
		flags |= RPCLOAD_CHECK;
	if (call->params->flip == RPCLOAD_FLIP_REPLY)
		flags |= RPCLOAD_FLIP;
	if (!call->params->end)
		flags |= RPCLOAD_NO_END;
	return flags;
}

static void encode_nothing(struct rpc_rqst *req, struct xdr_stream *xdr, const void *obj)
{
}

static int decode_nothing(struct rpc_rqst *req, struct xdr_stream *xdr, void *obj)
{
	return 0;
}

/* Encodes n bytes of data where the stream is, with their padding. */
static bool encode_bytes(struct rpcload_call *call, struct xdr_stream *xdr, u32 n, u32 offset)
{
	u8 *to = (u8 *)xdr_reserve_space(xdr, n);

	if (!to)
		return false;
	memset(to + n, 0, xdr_pad_size(n));
	if (call->params->verify) {
		rpcload_fill(to, n, call->seed, offset);
		spoil(call, to, n, offset);
	} else {
		memset(to, 0, n);
	}
	return true;
}

static bool encode_args(struct rpcload_call *call, struct xdr_stream *xdr)
{
	const struct rpcload_split *split = &call->call_split;

	if (xdr_stream_encode_u32(xdr, call->seed) < 0 ||
	    xdr_stream_encode_u32(xdr, call->reply.len) < 0 ||
	    xdr_stream_encode_u32(xdr, call->flags) < 0 ||
	    xdr_stream_encode_u32(xdr, call->call.len) < 0 ||
	    !encode_bytes(call, xdr, split->head, 0))
		return false;
	/* From here on the stream is in the tail. */
	if (split->pages || split->tail)
		xdr_write_pages(xdr, call->call_pages, call->call.base, split->pages);
	if (call->call.ddp)
		xdr->buf->flags |= XDRBUF_WRITE;
	return encode_bytes(call, xdr, split->tail, split->head + split->pages) &&
	       xdr_stream_encode_u32(xdr, rpcload_end(call->seed)) >= 0;
}

static void encode_echo(struct rpc_rqst *req, struct xdr_stream *xdr, const void *obj)
{
	struct rpcload_call *call = (struct rpcload_call *)obj;
	const struct rpcload_split *split = &call->reply_split;

	/* The buffer has the size that rpcload_call_prepare() has worked out. */
	WARN_ON_ONCE(!encode_args(call, xdr));
	if (split->pages || split->tail)
		rpc_prepare_reply_pages(req, call->reply_pages, call->reply.base, split->pages,
					3 + XDR_QUADLEN(split->head));
	if (call->reply.ddp)
		req->rq_rcv_buf.flags |= XDRBUF_READ;
}

/* Checks a result behind its first three words. */
static bool check_data(const struct rpcload_call *call, const struct xdr_stream *xdr, u32 seed)
{
	u32 at = xdr_stream_pos(xdr), len = call->reply.len, end;
	struct xdr_buf data;

	if (xdr_buf_subsegment(xdr->buf, &data, at, len) || rpcload_check_buf(&data, seed) != len)
		return false;
	return !call->params->end ||
	       (!xdr_decode_word(xdr->buf, at + xdr_align_size(len), &end) &&
		end == rpcload_end(seed));
}

static int decode_echo(struct rpc_rqst *req, struct xdr_stream *xdr, void *obj)
{
	struct rpcload_call *call = obj;
	u32 rest = xdr_align_size(call->reply.len) + (call->params->end ? XDR_UNIT : 0);
	u32 seed, len;

	if (xdr_stream_decode_u32(xdr, &call->status) < 0 ||
	    xdr_stream_decode_u32(xdr, &seed) < 0 ||
	    xdr_stream_decode_u32(xdr, &len) < 0)
		return -EIO;
	if (len != call->reply.len || xdr_stream_remaining(xdr) != rest)
		return -EIO;
	call->wrong = seed != rpcload_reply_seed(call->seed) ||
		      (call->params->verify && !check_data(call, xdr, seed));
	return 0;
}

/* Sets up a call of ECHO; the time for that is not part of the call's. */
void rpcload_call_prepare(struct rpcload_call *call, u32 number)
{
	const struct rpcload_params *params = call->params;
	struct rpc_procinfo *proc = &call->proc;
	const struct rpcload_split *split;

	call->status = 0;
	call->wrong = false;
	call->call = params->call;
	call->reply = params->reply;
	call->seed = rpcload_word(params->seed, number);
	if (params->vary) {
		vary(&call->call, rpcload_word(call->seed, 0));
		vary(&call->reply, rpcload_word(call->seed, 1));
	}
	call->flags = flags_of(call);
	call->call_split = rpcload_split(&call->call, call->call.len);
	call->reply_split = rpcload_split(&call->reply, call->reply.room);
	if (params->verify)
		fill_pages(call);

	/*
	 * In words: what an argument begins with, the data in the head and in the tail, the word at
	 * the end, and the padding of the pages, which stands in front of the tail. A result has one word
	 * less before its data. Exact sizes matter: the transport takes the room for a reply for what may
	 * come, and plans for that.
	 */
	*proc = (struct rpc_procinfo) {
		.p_proc		= RPCLOAD_ECHO,
		.p_encode	= encode_echo,
		.p_decode	= decode_echo,
		.p_statidx	= RPCLOAD_ECHO,
		.p_name		= "ECHO",
	};
	split = &call->call_split;
	proc->p_arglen = 4 + XDR_QUADLEN(split->head) + XDR_QUADLEN(split->tail) + 1 +
			 !!xdr_pad_size(split->pages);
	split = &call->reply_split;
	proc->p_replen = 3 + XDR_QUADLEN(split->head) + XDR_QUADLEN(split->tail) + params->end +
			 !!xdr_pad_size(split->pages);
}

const struct rpc_procinfo rpcload_null_proc = {
	.p_proc		= RPCLOAD_NULL,
	.p_encode	= encode_nothing,
	.p_decode	= decode_nothing,
	.p_statidx	= RPCLOAD_NULL,
	.p_name		= "NULL",
};

/* Without a decoder sunrpc takes the call for one that has no reply. */
const struct rpc_procinfo rpcload_unanswered_proc = {
	.p_proc		= RPCLOAD_NULL,
	.p_encode	= encode_nothing,
	.p_statidx	= RPCLOAD_NULL,
	.p_name		= "NULL",
};

/* Only the names are looked at: each call brings a procedure of its own. */
static const struct rpc_procinfo procs[] = {
	[RPCLOAD_NULL] = { .p_name = "NULL" },
	[RPCLOAD_ECHO] = { .p_name = "ECHO" },
};

static unsigned int echo_counts[ARRAY_SIZE(procs)];
static unsigned int nfs_counts[1];

static const struct rpc_version echo_version = {
	.number		= RPCLOAD_VERSION,
	.nrprocs	= ARRAY_SIZE(procs),
	.procs		= procs,
	.counts		= echo_counts,
};

static const struct rpc_version nfs_version = {
	.number		= NFS_VERSION,
	.nrprocs	= ARRAY_SIZE(nfs_counts),
	.procs		= procs,
	.counts		= nfs_counts,
};

static const struct rpc_version *echo_versions[] = {
	[RPCLOAD_VERSION] = &echo_version,
};

static const struct rpc_version *nfs_versions[] = {
	[NFS_VERSION] = &nfs_version,
};

static struct rpc_stat echo_stats, nfs_stats;

const struct rpc_program rpcload_echo_program = {
	.name		= "rpcload",
	.number		= RPCLOAD_PROGRAM,
	.nrvers		= ARRAY_SIZE(echo_versions),
	.version	= echo_versions,
	.stats		= &echo_stats,
};

const struct rpc_program rpcload_nfs_program = {
	.name		= "nfs",
	.number		= NFS_PROGRAM,
	.nrvers		= ARRAY_SIZE(nfs_versions),
	.version	= nfs_versions,
	.stats		= &nfs_stats,
};
