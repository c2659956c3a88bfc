/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface of rpcload.ko and rpcload_echo.ko: an RPC program, and data that both can compute.
 * The peer (selftests/guests/peer) knows it too, and calls the program that rpcload.ko serves.
 *
 *	program 0x2000720d, version 1
 *	    NULL = 0
 *	    ECHO = 1: (u32 seed, u32 reply_len, u32 flags, opaque data<>, u32 end)
 *	              -> (u32 status, u32 seed, opaque data<>, u32 end)
 *
 * The bytes of data follow from the seed and their offset. A reply has a seed of its own, so that
 * an argument that comes back unchanged is no valid result, and each checked call has another seed,
 * so that the remains of an earlier call in a buffer are none either. The word at the end shows that
 * everything behind the data is in its place, too.
 *
 * status is 0, or one more than the offset of the first wrong byte of the argument.
 *
 *	program 0x2000720e, version 1, served by the client over the connection it has made
 *	    NULL = 0
 *	    REPLY = 1: (u32 len) -> (opaque data<>)
 *	    STALL = 2: () -> (), which replies when the client's file "stall" is 0
 *
 * The data of REPLY has the seed len.
 */
#ifndef RPCLOAD_H
#define RPCLOAD_H

#include <linux/highmem.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/sunrpc/xdr.h>
#include <linux/unaligned.h>

#define RPCLOAD_PROGRAM		0x2000720d	/* in the range that is the users' to define */
#define RPCLOAD_VERSION		1
#define RPCLOAD_PORT		20050
#define RPCLOAD_MAX_DATA	SZ_1M

enum {
	RPCLOAD_NULL = 0,
	RPCLOAD_ECHO = 1,
};

#define RPCLOAD_REVERSE_PROGRAM	0x2000720e
#define RPCLOAD_REVERSE_VERSION	1
/* The rest of the one page that a reverse reply has, after the RPC header and the length. */
#define RPCLOAD_MAX_REVERSE	(PAGE_SIZE - 7 * XDR_UNIT)

enum {
	RPCLOAD_REVERSE_NULL = 0,
	RPCLOAD_REVERSE_REPLY = 1,
	RPCLOAD_REVERSE_STALL = 2,
};

/* Flags of a call. The first two say where the server keeps the data of the reply. */
#define RPCLOAD_IN_PAGES	BIT(0)	/* in the pages, as a result that may be placed directly */
#define RPCLOAD_IN_PARTS	BIT(1)	/* some of it in each of head, pages and tail */
#define RPCLOAD_CHECK		BIT(2)	/* check the argument and fill in the result */
#define RPCLOAD_FLIP		BIT(3)	/* spoil one byte of the result */
#define RPCLOAD_NO_END		BIT(4)	/* nothing follows the data of the result */

/* The seed of the reply to a call. */
static inline u32 rpcload_reply_seed(u32 seed)
{
	return ~seed * 0x9e3779b1u;
}

/* The word at the end of a message. */
static inline u32 rpcload_end(u32 seed)
{
	return seed ^ 0x656e6421;
}

/* The byte of n that is spoilt on demand. */
static inline u32 rpcload_spoilt(u32 n)
{
	return n / 2;
}

/* Eight bytes of data: a multiplicative hash, which is enough to tell bytes apart. */
static inline u64 rpcload_word(u32 seed, u32 index)
{
	u64 word = ((u64)seed << 32 | index) * 0x9e3779b97f4a7c15ull;

	word = (word ^ word >> 32) * 0xd6e8feb86659fd93ull;
	return word ^ word >> 32;
}

/* Writes the bytes from offset on. */
static inline void rpcload_fill(u8 *to, u32 len, u32 seed, u32 offset)
{
	while (len) {
		u8 word[8];
		u32 n = min(len, 8 - offset % 8);

		if (n == 8) {
			put_unaligned_le64(rpcload_word(seed, offset / 8), to);
		} else {
			put_unaligned_le64(rpcload_word(seed, offset / 8), word);
			memcpy(to, word + offset % 8, n);
		}
		to += n;
		offset += n;
		len -= n;
	}
}

/* The number of right bytes before the first wrong one; len if all are right. */
static inline u32 rpcload_check(const u8 *from, u32 len, u32 seed, u32 offset)
{
	u32 good = 0;

	while (good < len) {
		u8 word[8];
		u32 n = min(len - good, 8 - (offset + good) % 8);
		u32 skip = (offset + good) % 8;

		if (n == 8 && get_unaligned_le64(from + good) ==
			      rpcload_word(seed, (offset + good) / 8)) {
			good += n;
			continue;
		}
		put_unaligned_le64(rpcload_word(seed, (offset + good) / 8), word);
		for (; n; n--, skip++, good++)
			if (from[good] != word[skip])
				return good;
	}
	return len;
}

/* The same for bytes in pages; the first page starts at base. */
static inline void rpcload_fill_pages(struct page **pages, u32 base, u32 len, u32 seed, u32 offset)
{
	while (len) {
		u32 n = min_t(u32, len, PAGE_SIZE - offset_in_page(base));
		u8 *page = kmap_local_page(pages[base >> PAGE_SHIFT]);

		rpcload_fill(page + offset_in_page(base), n, seed, offset);
		kunmap_local(page);
		base += n;
		offset += n;
		len -= n;
	}
}

static inline u32 rpcload_check_pages(struct page **pages, u32 base, u32 len, u32 seed, u32 offset)
{
	u32 done, n;

	for (done = 0; done < len; done += n, base += n) {
		const u8 *page = kmap_local_page(pages[base >> PAGE_SHIFT]);
		u32 good;

		n = min_t(u32, len - done, PAGE_SIZE - offset_in_page(base));
		good = rpcload_check(page + offset_in_page(base), n, seed, offset + done);
		kunmap_local(page);
		if (good != n)
			return done + good;
	}
	return len;
}

/* The same for data wherever it is: buf holds nothing else. */
static inline u32 rpcload_check_buf(const struct xdr_buf *buf, u32 seed)
{
	u32 head = buf->head[0].iov_len, pages = buf->page_len, tail = buf->tail[0].iov_len;
	u32 good = rpcload_check(buf->head[0].iov_base, head, seed, 0);

	if (good == head && pages)
		good += rpcload_check_pages(buf->pages, buf->page_base, pages, seed, head);
	if (good == head + pages && tail)
		good += rpcload_check(buf->tail[0].iov_base, tail, seed, head + pages);
	return good;
}

#endif /* RPCLOAD_H */
