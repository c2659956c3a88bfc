# SPDX-License-Identifier: GPL-2.0
"""Many clients in one process, all at once. Usage: crowd.py HOST PORT KIND COUNT ORDERS

The kind is what they do:

    calls       each makes a call that does nothing, and disconnects when it has the reply
    half-open   they request connections, and do not look at what comes
    silent      they connect, send nothing, and disconnect in the end
    killed      each sends the messages of the orders, and the process is killed in the middle of that
    overrun     each sends 264 calls, and takes the replies, until it has all or the server takes no more
    deaf        they post no Receives, and send calls
    proven      each sends the first message of the orders, a call that the server's user accepts, and disconnects in the
                end; a few connect at a time, as the server ends connections that have yet to make such a call

A client that disconnects repeats its request until the server has answered. One that just goes, as those of the other kinds
do, sends it once, and while that is lost the server keeps the connection, for as long as twelve minutes.

ORDERS is a file, JSON: `messages` in hexadecimal digits, with places for the handle and the address of the memory as in
requester.py, `memory`, its bytes, and `enough`, a file that ends those that stay. A line of output, JSON, has the numbers of
connections that were `established`, `rejected` (or not answered) and `ended`, and of `replies`.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from ctypes import byref

import verbs
import wire
from endpoint import Area

NFS, SIZE = 100003, 1024
STEP_MS, LIMIT_SECONDS, LOOK_SECONDS = 20000, 300, 0.2
OVER = 200
FEW = 32
STAY = ("silent", "proven")
RECEIVES = {"overrun": 64, "deaf": 0}


class Client:
    """One of them."""

    def __init__(self, crowd, number):
        self.crowd, self.number = crowd, number
        self.id = ctypes.POINTER(verbs.Id)()
        self.replies = 0
        self.is_connecting = self.is_established = self.is_over = False
        verbs.create_id(crowd.channel, byref(self.id), ctypes.c_void_p(number + 1), verbs.PORT_SPACE_TCP)

    def resolve(self, host, port):
        """Begins."""
        verbs.resolve_addr(self.id, None, byref(verbs.address(host, port)), STEP_MS)

    def connect(self):
        """Requests the connection."""
        self.is_connecting = True
        crowd = self.crowd
        attr = verbs.QpInitAttr(
            send_cq=crowd.cq,
            recv_cq=crowd.cq,
            max_send_wr=crowd.sends,
            max_recv_wr=max(1, crowd.receives),
            max_send_sge=1,
            max_recv_sge=1,
            qp_type=verbs.QPT_RC,
        )
        verbs.create_qp(self.id, crowd.pd, byref(attr))
        for _ in range(crowd.receives):
            self.post()
        verbs.connect(self.id, byref(verbs.ConnParam(responder_resources=1, retry_count=6, rnr_retry_count=7)))

    def post(self):
        """Posts a Receive. All clients have one memory for what comes."""
        crowd = self.crowd
        crowd.ops.post_recv(self.id.contents.qp, self.number, crowd.area.addr, SIZE, crowd.area.lkey)

    def send(self, message):
        """Sends a message."""
        crowd = self.crowd
        at = crowd.area.addr + crowd.place(message)
        crowd.ops.post_send(self.id.contents.qp, at, len(message), crowd.area.lkey, ident=self.number)

    def call(self, number=0):
        """Makes a call that does nothing."""
        xid = (self.number << 12) + number + 1
        self.send(wire.msg(xid, 32, wire.rpc_call(xid, NFS, 3, 0)))

    def end(self):
        """Disconnects."""
        if not self.is_over:
            self.is_over = True
            verbs.disconnect(self.id)


class Crowd:
    """All of them."""

    def __init__(self, kind, count, orders):
        self.kind, self.orders = kind, orders
        self.channel = verbs.create_event_channel()
        self.receives = RECEIVES.get(kind, 4)
        self.sends = OVER + 64 if kind == "overrun" else 32
        self.pd = self.cq = None
        self.clients = [Client(self, number) for number in range(count)]
        self.found = {"established": 0, "rejected": 0, "ended": 0, "replies": 0}
        self._at = SIZE
        self._ready = 0

    def place(self, message):
        """Puts a message into the memory; returns its place. The last ones stay for long enough to be sent."""
        if self._at + len(message) > self.area.size:
            self._at = SIZE
        at, self._at = self._at, self._at + len(message)
        ctypes.memmove(self.area.addr + at, message, len(message))
        return at

    def _prepare(self, context):
        """Makes what all connections share."""
        self.ops = verbs.Ops(context)
        self.pd = verbs.alloc_pd(context)
        self.completions = verbs.create_comp_channel(context)
        self.cq = verbs.create_cq(context, 32000, None, self.completions, 0)
        self.ops.request_event(self.cq)
        access = verbs.ACCESS_LOCAL_WRITE | verbs.ACCESS_REMOTE_WRITE | verbs.ACCESS_REMOTE_READ
        self.area = Area.take(self.pd, 32 << 20)
        content = bytes.fromhex(self.orders.get("memory", ""))
        self.memory = Area.take(self.pd, max(len(content), 4096), access)
        ctypes.memmove(self.memory.addr, content, len(content))

    def run(self, host, port):
        """Connects them all, and has them do what they do."""
        for client in self.clients:
            client.resolve(host, port)
        end = time.monotonic() + LIMIT_SECONDS
        while not self._is_over():
            if time.monotonic() > end:
                raise TimeoutError(f"not over: {self.found}")
            acts = {} if self._looks_away() else {self.channel.contents.fd: self._event}
            if self.pd:
                acts[self.completions.contents.fd] = self._complete
            ready, _, _ = select.select([*acts], [], [], LOOK_SECONDS)
            for fd in ready:
                acts[fd]()
        return self.found

    def _looks_away(self):
        """True if nobody looks at what the server answers."""
        return self.kind == "half-open" and self._ready == len(self.clients)

    def _is_over(self):
        if self.kind in ("calls", "overrun"):
            return all(client.is_over for client in self.clients)
        if self.kind == "killed" and self._is_decided():
            self._die()
        if not (self.kind == "half-open" or self._is_decided()) or not os.path.exists(self.orders["enough"]):
            return False
        if self.kind not in STAY:
            return True
        if self.kind == "proven" and not all(each.replies or each.is_over for each in self.clients):
            return False
        for each in self.clients:
            each.end()
        return self.found["ended"] == self.found["established"]

    def _event(self):
        raw = verbs.next_event(self.channel)
        if raw is None:
            return
        kind, number = raw.contents.event, raw.contents.id.contents.context - 1
        verbs.ack_cm_event(raw)
        client = self.clients[number]
        if kind == verbs.ADDR_RESOLVED:
            verbs.resolve_route(client.id, STEP_MS)
        elif kind == verbs.ROUTE_RESOLVED:
            self._resolved(client)
        elif kind == verbs.ESTABLISHED:
            self.found["established"] += 1
            client.is_established = True
            self._established(client)
        elif kind == verbs.DISCONNECTED:
            self.found["ended"] += 1
            client.end()
            self._follow(client)
        elif kind in (verbs.CONNECT_ERROR, verbs.UNREACHABLE, verbs.REJECTED):
            # Of one that was established, the server may give up the connection.
            self.found["ended" if client.is_established else "rejected"] += 1
            client.is_over = True
            self._follow(client)
        elif kind != verbs.TIMEWAIT_EXIT:
            raise RuntimeError(f"event {kind} of client {number}: {self.found}")

    def _resolved(self, client):
        """The requests go out together, once all addresses are resolved."""
        if self.pd is None:
            self._prepare(client.id.contents.verbs)
        self._ready += 1
        if self._ready == len(self.clients):
            for each in self.clients[: FEW if self.kind == "proven" else None]:
                each.connect()
            print("connecting", flush=True)

    def _established(self, client):
        if self.kind == "calls":
            client.call()
        elif self.kind == "overrun":
            for number in range(self.receives + OVER):
                client.call(number)
        elif self.kind == "deaf":
            for number in range(16):
                client.call(number)
        elif self.kind == "proven":
            client.send(bytes.fromhex(self.orders["messages"][0]))

    def _follow(self, client):
        """The next one connects, once a client of a few at a time has its reply, or is without a connection."""
        following = client.number + FEW
        if self.kind == "proven" and following < len(self.clients) and not self.clients[following].is_connecting:
            self.clients[following].connect()

    def _is_decided(self):
        return self.found["established"] + self.found["rejected"] == len(self.clients)

    def _die(self):
        """Sends the messages of the orders, and is killed in the middle of them."""
        places = {"h" * 8: f"{self.memory.rkey:08x}", "o" * 16: f"{self.memory.addr:016x}"}
        for each in filter(lambda each: each.is_established, self.clients):
            for text in self.orders["messages"]:
                for place, value in places.items():
                    text = text.replace(place, value)
                each.send(bytes.fromhex(text))
        print(json.dumps(self.found), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def _complete(self):
        verbs.get_cq_event(self.completions, byref(ctypes.c_void_p()), byref(ctypes.c_void_p()))
        verbs.ack_cq_events(self.cq, 1)
        self.ops.request_event(self.cq)
        while (wc := self.ops.poll_cq(self.cq)) is not None:
            client = self.clients[wc.wr_id]
            if wc.status:
                # The server takes no more, and the connection is of no use.
                client.end()
                self._follow(client)
                continue
            if not wc.opcode & verbs.WC_RECV:
                continue
            client.replies += 1
            self.found["replies"] += 1
            if self.kind == "overrun" and client.replies < self.receives + OVER:
                client.post()
            elif self.kind in ("calls", "overrun"):
                client.end()
            else:
                self._follow(client)


def main():
    """Runs."""
    host, port, kind, count, orders = sys.argv[1:]
    with open(orders, encoding="ascii") as file:
        crowd = Crowd(kind, int(count), json.load(file))
    print(json.dumps(crowd.run(host, int(port))), flush=True)
    # Without freeing anything: what clients leave behind is the server's to clean up.
    os._exit(0)


if __name__ == "__main__":
    main()
