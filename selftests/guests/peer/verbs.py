# SPDX-License-Identifier: GPL-2.0
"""Calls libibverbs and librdmacm through ctypes.

The guests have no compiler, and pyverbs does not say which bytes of private data it sends. The layouts are the public
ABI of both libraries (rdma-core, version 1 of the .so files); only the members up to the last one used are declared.
"""

import ctypes
import os
import socket
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

# enum rdma_cm_event_type
ADDR_RESOLVED, ROUTE_RESOLVED, CONNECT_REQUEST, CONNECT_ERROR, UNREACHABLE, REJECTED = 0, 2, 4, 6, 7, 8
ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT = 9, 10, 15
PORT_SPACE_TCP = 0x106

QPT_RC = 2
ACCESS_LOCAL_WRITE, ACCESS_REMOTE_WRITE, ACCESS_REMOTE_READ = 1, 2, 4
# enum ibv_wr_opcode, enum ibv_send_flags
WR_WRITE_WITH_IMM, WR_SEND, WR_SEND_WITH_INV = 1, 2, 9
SEND_SIGNALED = 2
# enum ibv_wc_opcode: Receives have this bit.
WC_RECV = 128

# Positions in struct ibv_context_ops of the functions that the headers define inline.
OP_POLL_CQ, OP_REQ_NOTIFY_CQ, OP_POST_SEND, OP_POST_RECV = 11, 12, 25, 26


class SockaddrIn(Structure):
    """struct sockaddr_in."""

    _fields_ = (("family", c_uint16), ("port", c_uint8 * 2), ("addr", c_uint32), ("zero", c_uint8 * 8))


class EventChannel(Structure):
    """struct rdma_event_channel."""

    _fields_ = (("fd", c_int),)


class CompChannel(Structure):
    """struct ibv_comp_channel."""

    _fields_ = (("context", c_void_p), ("fd", c_int), ("refcnt", c_int))


class Context(Structure):
    """struct ibv_context."""

    _fields_ = (("device", c_void_p), ("ops", c_void_p * 32))


class Id(Structure):
    """struct rdma_cm_id."""

    _fields_ = (("verbs", POINTER(Context)), ("channel", c_void_p), ("context", c_void_p), ("qp", c_void_p))


class ConnParam(Structure):
    """struct rdma_conn_param."""

    _fields_ = (
        ("private_data", c_void_p),
        ("private_data_len", c_uint8),
        ("responder_resources", c_uint8),
        ("initiator_depth", c_uint8),
        ("flow_control", c_uint8),
        ("retry_count", c_uint8),
        ("rnr_retry_count", c_uint8),
        ("srq", c_uint8),
        ("qp_num", c_uint32),
    )


class Event(Structure):
    """struct rdma_cm_event, of a connected identifier."""

    _fields_ = (
        ("id", POINTER(Id)),
        ("listen_id", POINTER(Id)),
        ("event", c_uint32),
        ("status", c_int),
        ("conn", ConnParam),
    )


class QpInitAttr(Structure):
    """struct ibv_qp_init_attr."""

    _fields_ = (
        ("qp_context", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("max_send_wr", c_uint32),
        ("max_recv_wr", c_uint32),
        ("max_send_sge", c_uint32),
        ("max_recv_sge", c_uint32),
        ("max_inline_data", c_uint32),
        ("qp_type", c_uint32),
        ("sq_sig_all", c_int),
    )


class Mr(Structure):
    """struct ibv_mr."""

    _fields_ = (
        ("context", c_void_p),
        ("pd", c_void_p),
        ("addr", c_void_p),
        ("length", c_size_t),
        ("handle", c_uint32),
        ("lkey", c_uint32),
        ("rkey", c_uint32),
    )


class Sge(Structure):
    """struct ibv_sge."""

    _fields_ = (("addr", c_uint64), ("length", c_uint32), ("lkey", c_uint32))


class RecvWr(Structure):
    """struct ibv_recv_wr."""

    _fields_ = (("wr_id", c_uint64), ("next", c_void_p), ("sg_list", POINTER(Sge)), ("num_sge", c_int))


class SendWr(Structure):
    """struct ibv_send_wr; the unions of the other opcodes are the rest."""

    _fields_ = (
        ("wr_id", c_uint64),
        ("next", c_void_p),
        ("sg_list", POINTER(Sge)),
        ("num_sge", c_int),
        ("opcode", c_uint32),
        ("send_flags", c_uint32),
        ("invalidate_rkey", c_uint32),
        ("rest", c_uint64 * 12),
    )


class Wc(Structure):
    """struct ibv_wc."""

    _fields_ = (
        ("wr_id", c_uint64),
        ("status", c_uint32),
        ("opcode", c_uint32),
        ("vendor_err", c_uint32),
        ("byte_len", c_uint32),
        ("imm_data", c_uint32),
        ("qp_num", c_uint32),
        ("src_qp", c_uint32),
        ("wc_flags", c_uint32),
        ("pkey_index", c_uint16),
        ("slid", c_uint16),
        ("sl", c_uint8),
        ("dlid_path_bits", c_uint8),
    )


def function(library, name, result, *arguments):
    """A function of a library that fails with an OSError: null for a pointer, non-zero for an int."""
    raw = getattr(library, name)
    raw.restype, raw.argtypes = result, arguments

    def call(*values):
        found = raw(*values)
        if result is not None and (bool(found) if result is c_int else not found):
            number = ctypes.get_errno() if result is not c_int or found < 0 else found
            raise OSError(number, f"{name}: {os.strerror(number)}")
        return found

    return call


_ib = ctypes.CDLL("libibverbs.so.1", use_errno=True)
_cm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
_ID, _CHANNEL, _EVENT = POINTER(Id), POINTER(EventChannel), POINTER(Event)

_create_event_channel = function(_cm, "rdma_create_event_channel", _CHANNEL)
destroy_event_channel = function(_cm, "rdma_destroy_event_channel", None, _CHANNEL)
create_id = function(_cm, "rdma_create_id", c_int, _CHANNEL, POINTER(_ID), c_void_p, c_int)
bind_addr = function(_cm, "rdma_bind_addr", c_int, _ID, POINTER(SockaddrIn))
listen = function(_cm, "rdma_listen", c_int, _ID, c_int)
resolve_addr = function(_cm, "rdma_resolve_addr", c_int, _ID, c_void_p, POINTER(SockaddrIn), c_int)
resolve_route = function(_cm, "rdma_resolve_route", c_int, _ID, c_int)
connect = function(_cm, "rdma_connect", c_int, _ID, POINTER(ConnParam))
_get_cm_event = function(_cm, "rdma_get_cm_event", c_int, _CHANNEL, POINTER(_EVENT))
ack_cm_event = function(_cm, "rdma_ack_cm_event", c_int, _EVENT)
create_qp = function(_cm, "rdma_create_qp", c_int, _ID, c_void_p, POINTER(QpInitAttr))
destroy_qp = function(_cm, "rdma_destroy_qp", None, _ID)
destroy_id = function(_cm, "rdma_destroy_id", c_int, _ID)
accept = function(_cm, "rdma_accept", c_int, _ID, POINTER(ConnParam))
reject = function(_cm, "rdma_reject", c_int, _ID, c_char_p, c_uint8)
disconnect = function(_cm, "rdma_disconnect", c_int, _ID)

alloc_pd = function(_ib, "ibv_alloc_pd", c_void_p, POINTER(Context))
reg_mr = function(_ib, "ibv_reg_mr", POINTER(Mr), c_void_p, c_void_p, c_size_t, c_int)
dereg_mr = function(_ib, "ibv_dereg_mr", c_int, POINTER(Mr))
create_comp_channel = function(_ib, "ibv_create_comp_channel", POINTER(CompChannel), POINTER(Context))
destroy_comp_channel = function(_ib, "ibv_destroy_comp_channel", c_int, POINTER(CompChannel))
create_cq = function(_ib, "ibv_create_cq", c_void_p, POINTER(Context), c_int, c_void_p, POINTER(CompChannel), c_int)
destroy_cq = function(_ib, "ibv_destroy_cq", c_int, c_void_p)
get_cq_event = function(_ib, "ibv_get_cq_event", c_int, POINTER(CompChannel), POINTER(c_void_p), POINTER(c_void_p))
ack_cq_events = function(_ib, "ibv_ack_cq_events", None, c_void_p, c_uint32)


def create_event_channel():
    """A channel for events of the connection manager, which `next_event` takes."""
    channel = _create_event_channel()
    os.set_blocking(channel.contents.fd, False)
    return channel


def next_event(channel):
    """An event that has come, which is to be acknowledged, or None.

    A channel that is ready may have none: librdmacm keeps the end of a connection that it could not complete to itself, and
    goes on to the next event. If the channel waited, that would be the end of another connection, perhaps minutes later.
    """
    event = _EVENT()
    try:
        _get_cm_event(channel, byref(event))
    except BlockingIOError:
        return None
    return event


class Ops:
    """The operations of a device, which the headers reach through its context."""

    def __init__(self, context):
        table = context.contents.ops
        self._poll_cq = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, POINTER(Wc))(table[OP_POLL_CQ])
        self._req_notify = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)(table[OP_REQ_NOTIFY_CQ])
        post = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p))
        self._post_send, self._post_recv = post(table[OP_POST_SEND]), post(table[OP_POST_RECV])

    def poll_cq(self, cq):
        """One completion, or None."""
        wc = Wc()
        return wc if self._poll_cq(cq, 1, byref(wc)) > 0 else None

    def request_event(self, cq):
        """Requests an event at the next completion."""
        self._req_notify(cq, 0)

    def post_send(self, qp, addr, length, lkey, handle=None, ident=0):
        """Posts a signalled Send, which invalidates `handle` if given."""
        sge = Sge(addr, length, lkey)
        wr = SendWr(
            wr_id=ident,
            sg_list=ctypes.pointer(sge),
            num_sge=1 if length else 0,
            opcode=WR_SEND,
            send_flags=SEND_SIGNALED,
        )
        if handle is not None:
            wr.opcode, wr.invalidate_rkey = WR_SEND_WITH_INV, handle
        self._check("post_send", self._post_send(qp, ctypes.addressof(wr), byref(c_void_p())))

    def post_immediate(self, qp):
        """Posts a signalled RDMA Write of nothing with immediate data, which takes a Receive of the client."""
        wr = SendWr(num_sge=0, opcode=WR_WRITE_WITH_IMM, send_flags=SEND_SIGNALED)
        self._check("post_send", self._post_send(qp, ctypes.addressof(wr), byref(c_void_p())))

    def post_recv(self, qp, ident, addr, length, lkey):
        """Posts a Receive."""
        sge = Sge(addr, length, lkey)
        wr = RecvWr(wr_id=ident, sg_list=ctypes.pointer(sge), num_sge=1)
        self._check("post_recv", self._post_recv(qp, ctypes.addressof(wr), byref(c_void_p())))

    @staticmethod
    def _check(name, number):
        if number:
            raise OSError(abs(number), f"{name}: {os.strerror(abs(number))}")


def any_address(port):
    """A wildcard address."""
    return address("0.0.0.0", port)


def address(host, port):
    """An IPv4 address."""
    return SockaddrIn(2, (c_uint8 * 2)(port >> 8, port & 255), c_uint32.from_buffer_copy(socket.inet_aton(host)).value)
