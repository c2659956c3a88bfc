# SPDX-License-Identifier: GPL-2.0
"""Connections as the peer sees them: events of the connection manager, messages in, messages out."""

import ctypes
import mmap
from contextlib import contextmanager, suppress
from ctypes import byref, c_void_p

import verbs

SEND_AREA = 8 << 20
MAX_SENDS = 1024
KINDS = {verbs.CONNECT_REQUEST: "request", verbs.ESTABLISHED: "established", verbs.DISCONNECTED: "disconnected"}


class Event:
    """An event of the connection manager, valid until it is acknowledged."""

    def __init__(self, raw):
        self.raw = raw
        # A pointer of its own: one that ctypes reads from the event ends with the event.
        self.key = ctypes.addressof(raw.contents.id.contents)
        self.id = ctypes.cast(self.key, ctypes.POINTER(verbs.Id))
        self.kind = KINDS.get(raw.contents.event, f"{raw.contents.event}, status {raw.contents.status}")

    @property
    def private_data(self):
        """The bytes that came with it, padding of the connection manager's message included."""
        conn = self.raw.contents.conn
        return ctypes.string_at(conn.private_data, conn.private_data_len) if conn.private_data else b""

    @property
    def depth(self):
        """The outstanding RDMA Reads that the client can serve and wants served."""
        conn = self.raw.contents.conn
        return conn.responder_resources, conn.initiator_depth

    def reject(self, private_data):
        """Refuses a connect request."""
        verbs.reject(self.id, private_data or None, len(private_data))


class Listener:
    """Takes connect requests to a port at any address."""

    def __init__(self, port):
        self._channel = verbs.create_event_channel()
        self._id = ctypes.POINTER(verbs.Id)()
        verbs.create_id(self._channel, byref(self._id), None, verbs.PORT_SPACE_TCP)
        verbs.bind_addr(self._id, byref(verbs.any_address(port)))
        verbs.listen(self._id, 8)
        self.fd = self._channel.contents.fd

    @contextmanager
    def event(self):
        """An event that has come, acknowledged after the block, or None."""
        raw = verbs.next_event(self._channel)
        if raw is None:
            yield None
            return
        try:
            yield Event(raw)
        finally:
            verbs.ack_cm_event(raw)


class Area:
    """Registered memory, which outlives its connection: clients that are cut off return immediately."""

    _free = []

    @classmethod
    def take(cls, pd, size, access=verbs.ACCESS_LOCAL_WRITE):
        """One that a closed connection has left, or a new one."""
        for area in cls._free:
            if (area.pd, area.size, area.access) == (pd, size, access):
                cls._free.remove(area)
                return area
        return cls(pd, size, access)

    def __init__(self, pd, size, access):
        self.pd, self.access = pd, access
        self._map = mmap.mmap(-1, size)
        self._view = (ctypes.c_char * size).from_buffer(self._map)
        self.addr = ctypes.addressof(self._view)
        self._mr = verbs.reg_mr(pd, self.addr, size, access)
        self.lkey, self.rkey = self._mr.contents.lkey, self._mr.contents.rkey
        self.size = size

    def revoke(self):
        """Ends its registration, whoever uses it."""
        verbs.dereg_mr(self._mr)

    def close(self):
        """Leaves the memory to the next connection."""
        Area._free.append(self)


class Connection:
    """One connection, from the connect request on."""

    closed = []  # connections whose last event is not acknowledged yet
    _domains = {}  # by the address of the device's context

    def __init__(self, event, number, receives, receive_size):
        self.number = number
        self.id, self.depth = event.id, event.depth
        self._size = receive_size
        self._problems = []
        self._is_established = self._ends = False
        self._outstanding = self._at = 0
        self._unacknowledged = 0
        context = self.id.contents.verbs
        self.ops = verbs.Ops(context)
        address = ctypes.addressof(context.contents)
        if address not in Connection._domains:
            Connection._domains[address] = verbs.alloc_pd(context)
        self.pd = self._pd = Connection._domains[address]
        self._channel = verbs.create_comp_channel(context)
        self.fd = self._channel.contents.fd
        self._cq = verbs.create_cq(context, MAX_SENDS + receives, None, self._channel, 0)
        attr = verbs.QpInitAttr(
            send_cq=self._cq,
            recv_cq=self._cq,
            max_send_wr=MAX_SENDS,
            max_recv_wr=receives,
            max_send_sge=1,
            max_recv_sge=1,
            qp_type=verbs.QPT_RC,
        )
        verbs.create_qp(self.id, self._pd, byref(attr))
        self._qp = self.id.contents.qp
        self._in, self._out = Area.take(self._pd, receives * receive_size), Area.take(self._pd, SEND_AREA)
        for index in range(receives):
            self._post(index)
        self.ops.request_event(self._cq)

    def _post(self, index):
        self.ops.post_recv(self._qp, index, self._in.addr + index * self._size, self._size, self._in.lkey)

    def accept(self, private_data):
        """Accepts with these bytes, which the connection manager pads with zeros on rxe."""
        bytes = ctypes.create_string_buffer(private_data, max(1, len(private_data)))
        param = verbs.ConnParam(
            private_data=ctypes.cast(bytes, c_void_p) if private_data else None,
            private_data_len=len(private_data),
            responder_resources=self.depth[0],
            initiator_depth=self.depth[1],
            rnr_retry_count=7,
        )
        verbs.accept(self.id, byref(param))

    def send(self, message, handle=None):
        """Sends a message. If the client is gone, the completion reports it."""
        while self._outstanding >= MAX_SENDS - 1:
            self._completed(self.ops.poll_cq(self._cq), None)
        if self._at + len(message) > self._out.size:
            self._at = 0
        addr = self._out.addr + self._at
        self._at += len(message)
        ctypes.memmove(addr, message, len(message))
        self.ops.post_send(self._qp, addr, len(message), self._out.lkey, handle)
        self._outstanding += 1

    def deliver(self):
        """Waits until the client's device has all that was sent."""
        while self._outstanding > 0:
            self._completed(self.ops.poll_cq(self._cq), None)

    def immediate(self):
        """Writes nothing, with immediate data."""
        self.ops.post_immediate(self._qp)
        self._outstanding += 1

    def receive(self):
        """The messages that have come."""
        verbs.get_cq_event(self._channel, byref(c_void_p()), byref(c_void_p()))
        self._unacknowledged += 1
        self.ops.request_event(self._cq)
        messages = []
        while (wc := self.ops.poll_cq(self._cq)) is not None:
            self._completed(wc, messages)
        return messages

    def _completed(self, wc, messages):
        """Takes in one completion; a message that comes while a Send waits for room is put off."""
        if wc is None:
            return
        if not wc.opcode & verbs.WC_RECV and wc.status == 0:
            self._outstanding -= 1
        elif wc.status != 0:
            # The opcode of a failed completion is not defined.
            self._outstanding -= 1
            self._problems.append(wc.status)
        elif messages is None:
            self._problems.append("a message came in a flood")
            self._post(wc.wr_id)
        else:
            messages.append(ctypes.string_at(self._in.addr + wc.wr_id * self._size, wc.byte_len))
            self._post(wc.wr_id)

    def problems(self):
        """Statuses of the completions that failed since the last call, each once."""
        found, self._problems = list(dict.fromkeys(self._problems)), []
        return found

    def disconnect(self):
        """Ends the connection, unless the client was first. Before it is established the client would not hear of it."""
        self._ends = True
        if self._is_established:
            with suppress(OSError):
                verbs.disconnect(self.id)

    def established(self):
        """The connection is up, which a message of the client may have overtaken."""
        self._is_established = True
        if self._ends:
            self.disconnect()

    def close(self):
        """Marks the connection as ended."""
        Connection.closed.append(self)

    def destroy(self):
        """Frees the resources of the connection."""
        verbs.destroy_qp(self.id)
        verbs.ack_cq_events(self._cq, self._unacknowledged)
        verbs.destroy_cq(self._cq)
        verbs.destroy_comp_channel(self._channel)
        self._in.close()
        self._out.close()
        verbs.destroy_id(self.id)
