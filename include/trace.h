/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events. The system is rpcrdma_rs. An event that means what one of the in-tree transport means has its name. Fields
 * differ: Documentation/reference.rst lists them.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rpcrdma_rs

#if !defined(RPCRDMA_RS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RPCRDMA_RS_TRACE_H

#include <linux/tracepoint.h>

#define rpcrdma_rs_show_call(mode)				\
	__print_symbolic(mode,					\
			 { 0, "inline" },			\
			 { 1, "read chunk" },			\
			 { 2, "long" })

#define rpcrdma_rs_show_reply(mode)				\
	__print_symbolic(mode,					\
			 { 0, "inline" },			\
			 { 1, "write chunk" },			\
			 { 2, "reply chunk" })

/* A transport wants a connection; the attempt begins after the delay, in milliseconds. */
TRACE_EVENT(xprtrdma_op_connect,
	TP_PROTO(u32 xprt, const char *addr, const char *port, unsigned int delay),
	TP_ARGS(xprt, addr, port, delay),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__field(unsigned int, delay)
		__string(addr, addr)
		__string(port, port)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->delay = delay;
		__assign_str(addr);
		__assign_str(port);
	),
	TP_printk("xprt=%u peer=[%s]:%s delay=%u", __entry->xprt, __get_str(addr), __get_str(port), __entry->delay)
);

/* A connection is made: the private data of both sides, 0 for none, and what follows from it. */
TRACE_EVENT(xprtrdma_inline_thresh,
	TP_PROTO(u32 xprt, u64 sent, u64 received, unsigned int inline_send, unsigned int inline_recv,
		 unsigned int credits),
	TP_ARGS(xprt, sent, received, inline_send, inline_recv, credits),
	TP_STRUCT__entry(
		__field(u64, sent)
		__field(u64, received)
		__field(u32, xprt)
		__field(unsigned int, inline_send)
		__field(unsigned int, inline_recv)
		__field(unsigned int, credits)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->sent = sent;
		__entry->received = received;
		__entry->inline_send = inline_send;
		__entry->inline_recv = inline_recv;
		__entry->credits = credits;
	),
	TP_printk("xprt=%u sent=%016llx received=%016llx inline_send=%u inline_recv=%u credits=%u", __entry->xprt,
		  __entry->sent, __entry->received, __entry->inline_send, __entry->inline_recv, __entry->credits)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_end,
	TP_PROTO(u32 xprt, const char *reason, unsigned int len),
	TP_ARGS(xprt, reason, len),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__string_len(reason, reason, len)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__assign_str(reason);
	),
	TP_printk("xprt=%u reason=%s", __entry->xprt, __get_str(reason))
);

/* A connection has ended, or an attempt to make one. */
DEFINE_EVENT(rpcrdma_rs_end, xprtrdma_op_close,
	TP_PROTO(u32 xprt, const char *reason, unsigned int len),
	TP_ARGS(xprt, reason, len)
);

/* How a call is sent and its reply may come back, and the sizes that decide it. */
TRACE_EVENT(xprtrdma_marshal,
	TP_PROTO(u32 xprt, u32 xid, unsigned int len, unsigned int pagelen, unsigned int recv_max, unsigned int rtype,
		 unsigned int wtype),
	TP_ARGS(xprt, xid, len, pagelen, recv_max, rtype, wtype),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__field(u32, xid)
		__field(unsigned int, len)
		__field(unsigned int, pagelen)
		__field(unsigned int, recv_max)
		__field(unsigned int, rtype)
		__field(unsigned int, wtype)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->xid = xid;
		__entry->len = len;
		__entry->pagelen = pagelen;
		__entry->recv_max = recv_max;
		__entry->rtype = rtype;
		__entry->wtype = wtype;
	),
	TP_printk("xprt=%u xid=0x%08x len=%u pagelen=%u recv_max=%u rtype=%s wtype=%s", __entry->xprt, __entry->xid,
		  __entry->len, __entry->pagelen, __entry->recv_max, rpcrdma_rs_show_call(__entry->rtype),
		  rpcrdma_rs_show_reply(__entry->wtype))
);

/* A segment of memory that the server may reach. */
TRACE_EVENT(xprtrdma_mr_map,
	TP_PROTO(u32 xprt, u32 xid, u32 handle, u32 length, u64 offset, bool writable),
	TP_ARGS(xprt, xid, handle, length, offset, writable),
	TP_STRUCT__entry(
		__field(u64, offset)
		__field(u32, xprt)
		__field(u32, xid)
		__field(u32, handle)
		__field(u32, length)
		__field(bool, writable)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->xid = xid;
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
		__entry->writable = writable;
	),
	TP_printk("xprt=%u xid=0x%08x %u@0x%016llx:0x%08x (%s)", __entry->xprt, __entry->xid, __entry->length,
		  __entry->offset, __entry->handle, __entry->writable ? "FROM_DEVICE" : "TO_DEVICE")
);

/* A message was handed to the device. */
TRACE_EVENT(xprtrdma_post_send,
	TP_PROTO(u32 xprt, u32 xid, unsigned int len),
	TP_ARGS(xprt, xid, len),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__field(u32, xid)
		__field(unsigned int, len)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->xid = xid;
		__entry->len = len;
	),
	TP_printk("xprt=%u xid=0x%08x len=%u", __entry->xprt, __entry->xid, __entry->len)
);

/* A message came; inv_rkey is the handle that it has invalidated, 0 for none. */
TRACE_EVENT(xprtrdma_wc_receive,
	TP_PROTO(u32 xprt, unsigned int received, u32 inv_rkey),
	TP_ARGS(xprt, received, inv_rkey),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__field(unsigned int, received)
		__field(u32, inv_rkey)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->received = received;
		__entry->inv_rkey = inv_rkey;
	),
	TP_printk("xprt=%u received=%u inv_rkey=0x%08x", __entry->xprt, __entry->received, __entry->inv_rkey)
);

/* A reply to a call that waits for it, and its grant. */
TRACE_EVENT(xprtrdma_reply,
	TP_PROTO(u32 xprt, u32 xid, unsigned int credits),
	TP_ARGS(xprt, xid, credits),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__field(u32, xid)
		__field(unsigned int, credits)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->xid = xid;
		__entry->credits = credits;
	),
	TP_printk("xprt=%u xid=0x%08x credits=%u", __entry->xprt, __entry->xid, __entry->credits)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_reason,
	TP_PROTO(u32 xprt, u32 xid, const char *reason, unsigned int len),
	TP_ARGS(xprt, xid, reason, len),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__field(u32, xid)
		__string_len(reason, reason, len)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->xid = xid;
		__assign_str(reason);
	),
	TP_printk("xprt=%u xid=0x%08x reason=%s", __entry->xprt, __entry->xid, __get_str(reason))
);

/* A call could not be built, and has failed. */
DEFINE_EVENT(rpcrdma_rs_reason, xprtrdma_marshal_failed,
	TP_PROTO(u32 xprt, u32 xid, const char *reason, unsigned int len),
	TP_ARGS(xprt, xid, reason, len)
);

/* A reply cannot be used, and its call has failed. */
DEFINE_EVENT(rpcrdma_rs_reason, xprtrdma_reply_err,
	TP_PROTO(u32 xprt, u32 xid, const char *reason, unsigned int len),
	TP_ARGS(xprt, xid, reason, len)
);

/* An offer of version 2 has its answer, or gets none that can be used. */
DEFINE_EVENT(rpcrdma_rs_reason, xprtrdma_offer,
	TP_PROTO(u32 xprt, u32 xid, const char *reason, unsigned int len),
	TP_ARGS(xprt, xid, reason, len)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_count,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__field(u32, xid)
		__field(unsigned int, count)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->xid = xid;
		__entry->count = count;
	),
	TP_printk("xprt=%u xid=0x%08x count=%u", __entry->xprt, __entry->xid, __entry->count)
);

/* The registrations of a call are being invalidated by us. */
DEFINE_EVENT(rpcrdma_rs_count, xprtrdma_mr_localinv,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

/* A call of the server's, with its length in bytes. */
DEFINE_EVENT(rpcrdma_rs_count, xprtrdma_cb_call,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

/* Our reply to such a call, with its length in bytes. */
DEFINE_EVENT(rpcrdma_rs_count, xprtrdma_cb_reply,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_operation,
	TP_PROTO(u32 xprt, u32 xid, const char *name, unsigned int len, bool sent, unsigned int receive_size,
		 unsigned int peer_receive_size),
	TP_ARGS(xprt, xid, name, len, sent, receive_size, peer_receive_size),
	TP_STRUCT__entry(
		__field(u32, xprt)
		__field(u32, xid)
		__field(unsigned int, receive_size)
		__field(unsigned int, peer_receive_size)
		__field(bool, sent)
		__string_len(name, name, len)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->xid = xid;
		__entry->receive_size = receive_size;
		__entry->peer_receive_size = peer_receive_size;
		__entry->sent = sent;
		__assign_str(name);
	),
	TP_printk("xprt=%u xid=0x%08x %s %s receive_size=%u peer_receive_size=%u", __entry->xprt, __entry->xid,
		  __get_str(name), __entry->sent ? "sent" : "received", __entry->receive_size,
		  __entry->peer_receive_size)
);

/* An operation of version 2, and the sizes of the Receives of both ends, in bytes, that are in force after it. */
DEFINE_EVENT(rpcrdma_rs_operation, xprtrdma_operation,
	TP_PROTO(u32 xprt, u32 xid, const char *name, unsigned int len, bool sent, unsigned int receive_size,
		 unsigned int peer_receive_size),
	TP_ARGS(xprt, xid, name, len, sent, receive_size, peer_receive_size)
);

/*
 * The server side. Here xprt is the number of a client's connection.
 */

/* A client's request is accepted: its address, the private data of both sides, 0 for none, and what follows from it. */
TRACE_EVENT(svcrdma_accept,
	TP_PROTO(u32 xprt, const char *addr, unsigned int len, u64 sent, u64 received, unsigned int inline_send,
		 unsigned int inline_recv, unsigned int credits),
	TP_ARGS(xprt, addr, len, sent, received, inline_send, inline_recv, credits),
	TP_STRUCT__entry(
		__field(u64, sent)
		__field(u64, received)
		__field(u32, xprt)
		__field(unsigned int, inline_send)
		__field(unsigned int, inline_recv)
		__field(unsigned int, credits)
		__string_len(addr, addr, len)
	),
	TP_fast_assign(
		__entry->xprt = xprt;
		__entry->sent = sent;
		__entry->received = received;
		__entry->inline_send = inline_send;
		__entry->inline_recv = inline_recv;
		__entry->credits = credits;
		__assign_str(addr);
	),
	TP_printk("xprt=%u client=%s sent=%016llx received=%016llx inline_send=%u inline_recv=%u credits=%u",
		  __entry->xprt, __get_str(addr), __entry->sent, __entry->received, __entry->inline_send,
		  __entry->inline_recv, __entry->credits)
);

/* The connection of a client has ended. */
DEFINE_EVENT(rpcrdma_rs_end, svcrdma_close,
	TP_PROTO(u32 xprt, const char *reason, unsigned int len),
	TP_ARGS(xprt, reason, len)
);

/* A call has come, in a message of so many bytes. */
DEFINE_EVENT(rpcrdma_rs_count, svcrdma_call,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

/* Bytes of its arguments are read from the client's memory. */
DEFINE_EVENT(rpcrdma_rs_count, svcrdma_read,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

/* Bytes of its reply are written to the client's memory. */
DEFINE_EVENT(rpcrdma_rs_count, svcrdma_write,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

/* A reply of so many bytes, before any part of it is written. */
DEFINE_EVENT(rpcrdma_rs_count, svcrdma_reply,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

/* A message that is no call that can be served. */
DEFINE_EVENT(rpcrdma_rs_reason, svcrdma_unusable,
	TP_PROTO(u32 xprt, u32 xid, const char *reason, unsigned int len),
	TP_ARGS(xprt, xid, reason, len)
);

/* A call to the client, with its length in bytes. */
DEFINE_EVENT(rpcrdma_rs_count, svcrdma_cb_call,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

/* The client's reply to such a call, with its length in bytes. */
DEFINE_EVENT(rpcrdma_rs_count, svcrdma_cb_reply,
	TP_PROTO(u32 xprt, u32 xid, unsigned int count),
	TP_ARGS(xprt, xid, count)
);

/* As xprtrdma_operation. */
DEFINE_EVENT(rpcrdma_rs_operation, svcrdma_operation,
	TP_PROTO(u32 xprt, u32 xid, const char *name, unsigned int len, bool sent, unsigned int receive_size,
		 unsigned int peer_receive_size),
	TP_ARGS(xprt, xid, name, len, sent, receive_size, peer_receive_size)
);

#endif /* RPCRDMA_RS_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
