# SPDX-License-Identifier: GPL-2.0
"""A client that sends any bytes: connects, sends messages, and prints the replies as JSON.

The orders are a JSON file, an array of connections, each with the words

    private_data    the bytes of the connection request, in hexadecimal digits
    depth           RDMA Reads that it says it serves; 1 without
    receives, size  the number of its Receives, and their length
    memory          bytes that the server may read and write by RDMA
    revoked         true if it may no longer once it has begun to write them
    exchanges       an array of arrays of messages in hexadecimal digits; hhhhhhhh in them stands for the handle of the
                    memory, and oooooooooooooooo for its address
    keep            names, each with an array of numbers: in later messages {name} stands for bytes of the last reply of an
                    exchange, by the number of the exchange, the place of the bytes and their length
    mutated         the seed and the number of mutated calls to send, on as many connections as it takes
    callbacks       for each call of the server, an array of messages to be sent in return; cccccccc in them stands for its
                    xid, dddddddd for another one, and {from-to} for some of its bytes

An exchange may be an object: its `messages`, which are sent again, after a tenth of a second, `while` their last reply ends
in these digits; {turn} stands for the number of the turn, from 1 on. The last turn's replies count.

The messages of an exchange are sent together. Its replies are those up to the first with the xid of its last message,
which has to be a good call. A number in the place of an exchange stands for waiting until as many calls of the server have
come, from the first on; a text for waiting until a file with this name is there; an object with the words `call` and `answers` for sending messages in return to the call with this
number, from 0 on. For each connection there is a line of output: `private_data` of the accept, the `handle` of the memory,
for each exchange an array of its replies, the number of calls of the server that it has `seen` by the end of each exchange,
these `calls`, and `memory` as it is after the last exchange; or `failed`, with what came instead of the rest. Of mutated
calls: how many were `sent`, and how many `good` replies, `errors` and `ended` connections there were.
"""

import ctypes
import json
import os
import re
import select
import sys
import time
from ctypes import byref
from types import SimpleNamespace

import verbs
import wire
from endpoint import Area, Connection
from mutator import Mutator

STEP_MS = 5000
SILENCE_SECONDS = 20
TURNS, PAUSE_SECONDS = 600, 0.1
START = 64  # bytes of the memory that show whether the server has begun to write


class Failed(Exception):
    """Something else came than was waited for."""


class Requester:
    """One connection to the server."""

    def __init__(self, host, port, order):
        self._channel = verbs.create_event_channel()
        self._id = ctypes.POINTER(verbs.Id)()
        verbs.create_id(self._channel, byref(self._id), None, verbs.PORT_SPACE_TCP)
        verbs.resolve_addr(self._id, None, byref(verbs.address(host, port)), STEP_MS)
        self._wait(verbs.ADDR_RESOLVED)
        verbs.resolve_route(self._id, STEP_MS)
        self._wait(verbs.ROUTE_RESOLVED)
        event = SimpleNamespace(id=self._id, depth=(order.get("depth", 1), 0))
        self._connection = Connection(event, 1, order.get("receives", 64), order.get("size", 4096))
        content = bytes.fromhex(order.get("memory", ""))
        access = verbs.ACCESS_LOCAL_WRITE | verbs.ACCESS_REMOTE_WRITE | verbs.ACCESS_REMOTE_READ
        self._memory = Area.take(self._connection.pd, max(len(content), 4096), access)
        self._length, self._start = len(content), content[:START]
        self._revoked = order.get("revoked", False)
        ctypes.memmove(self._memory.addr, content, len(content))
        self._callbacks = order.get("callbacks", [])
        self._keep = order.get("keep", {})
        self._kept = {}
        self._exchanges = 0
        self.calls = []
        self.private_data = self._connect(bytes.fromhex(order.get("private_data", "")), order.get("depth", 1))

    def _connect(self, private_data, depth):
        data = ctypes.create_string_buffer(private_data, max(1, len(private_data)))
        param = verbs.ConnParam(
            private_data=ctypes.cast(data, ctypes.c_void_p) if private_data else None,
            private_data_len=len(private_data),
            responder_resources=depth,
            retry_count=6,
            # For the server, whose messages wait until this end posts Receives.
            rnr_retry_count=7,
        )
        verbs.connect(self._id, byref(param))
        data = self._wait(verbs.ESTABLISHED)
        self._connection.established()
        return data

    def _wait(self, kind):
        """Waits for an event of this kind; returns its private data."""
        while (raw := verbs.next_event(self._channel)) is None:
            select.select([self._channel.contents.fd], [], [])
        try:
            if raw.contents.event != kind:
                raise Failed(f"event {raw.contents.event}, status {raw.contents.status}")
            conn = raw.contents.conn
            return ctypes.string_at(conn.private_data, conn.private_data_len) if conn.private_data else b""
        finally:
            verbs.ack_cm_event(raw)

    @property
    def memory(self):
        """The bytes of the memory."""
        return ctypes.string_at(self._memory.addr, self._length)

    def _message(self, text, call=b""):
        if call:
            xid = int.from_bytes(call[:4], "big")
            text = text.replace("c" * 8, f"{xid:08x}").replace("d" * 8, f"{xid ^ 0x80000000:08x}")
            text = re.sub(
                r"\{(\d+)-(\d+)\}",
                lambda found: call[int(found[1]) : int(found[2])].hex(),
                text,
            )
        text = re.sub(r"\{(\w+)\}", lambda found: self._kept[found[1]].hex(), text)
        text = text.replace("h" * 8, self.handle).replace("o" * 16, f"{self._memory.addr:016x}")
        return bytes.fromhex(text)

    def repeat(self, order):
        """Sends the messages until their last reply ends in other digits."""
        for turn in range(1, TURNS):
            texts = [text.replace("{turn}", f"{turn:08x}") for text in order["messages"]]
            replies = self.exchange(texts)
            if not replies[-1].hex().endswith(order["while"]):
                return replies
            time.sleep(PAUSE_SECONDS)
        raise Failed(f"after {TURNS} turns still {replies[-1].hex()}")

    def exchange(self, texts):
        """Sends the messages; returns the replies up to that to the last of them."""
        replies = []
        messages = [self._message(text) for text in texts]
        for message in messages:
            self._connection.send(message)
        if self._revoked:
            self._revoke()
        while not any(reply[:4] == messages[-1][:4] for reply in replies):
            replies += self._received(replies)
        for name, (number, at, length) in self._keep.items():
            if number == self._exchanges:
                self._kept[name] = replies[-1][at : at + length]
        self._exchanges += 1
        return replies

    def _revoke(self):
        """Waits until the server writes to the memory, and takes it away."""
        end = time.monotonic() + SILENCE_SECONDS
        while ctypes.string_at(self._memory.addr, START) == self._start:
            if time.monotonic() > end:
                raise Failed("nothing is written")
        self._memory.revoke()

    def await_calls(self, count):
        """Waits until the server has made `count` calls in all."""
        while len(self.calls) < count:
            self._received([])

    def answer(self, number, texts):
        """Sends the messages in return to this call of the server."""
        for text in texts:
            self._connection.send(self._message(text, self.calls[number]))

    @property
    def handle(self):
        """The handle of the memory."""
        return f"{self._memory.rkey:08x}"

    def _received(self, before):
        """The next replies. Calls of the server are answered as the orders say."""
        events = self._channel.contents.fd
        ready, _, _ = select.select([self._connection.fd, events], [], [], SILENCE_SECONDS)
        if not ready:
            raise Failed(f"silence, after {[message.hex() for message in [*before, *self.calls]]}")
        if ready == [events]:
            self._wait(None)
        messages = self._connection.receive()
        if problems := self._connection.problems():
            raise Failed(f"completions failed with status {problems}")
        for message in filter(is_call, messages):
            number = len(self.calls)
            self.calls.append(message)
            self.answer(number, self._callbacks[number] if number < len(self._callbacks) else [])
        return [message for message in messages if not is_call(message)]

    def end(self):
        """Disconnects."""
        self._connection.disconnect()

    def close(self):
        """Disconnects, and leaves the memory to the next connection."""
        self.end()
        self._connection.destroy()
        self._memory.close()
        verbs.destroy_event_channel(self._channel)

    def flood(self, messages, last):
        """Sends the messages and a good call, whose xid is `last`; returns the replies up to its reply."""
        replies = []
        for message in [*messages, wire.msg(last, 32, wire.rpc_call(last, NFS, 3, 0))]:
            self._connection.send(message)
        while not any(int.from_bytes(reply[:4], "big") == last for reply in replies):
            replies += self._received(replies)
        return replies

    def right(self, number):
        """A right call of NFSv3, with chunks by its number, and the bytes at its end that are RPC's."""
        xid = number + 1
        piece = (int(self.handle, 16), 1024, self._memory.addr)
        payload = wire.rpc_call(xid, NFS, 3, 0)
        behind = (len(payload), *piece)
        chunks = (
            wire.lists(),
            wire.lists(read=[behind, behind]),
            wire.lists(write=[[piece, piece], [piece]]),
            wire.lists(reply=[piece, piece]),
            wire.lists([behind], [[piece]], [piece]),
        )
        kind = number % (len(chunks) + 1)
        if kind == len(chunks):
            return wire.msg(xid, 32, b"", proc=wire.RDMA_NOMSG, chunks=wire.lists(read=[(0, *piece), (0, *piece)])), 0
        return wire.msg(xid, 32, payload, chunks=chunks[kind]), len(payload)


def is_call(message):
    """A call of the server begins with its xid behind a header without chunks."""
    return message[28:36] == message[:4] + bytes(4)


def await_file(path):
    """Waits until the file is there."""
    for _ in range(TURNS):
        if os.path.exists(path):
            return
        time.sleep(PAUSE_SECONDS)
    raise Failed(f"no file {path}")


NFS = 100003
# Mutated calls that are sent together; the server grants more.
TOGETHER = 8
# The xid of the good call behind them, which none of them is likely to have.
GOOD = 0x600D0000


def send_mutated(host, port, order):
    """Sends calls that are wrong, with good ones between them; begins anew where the server ends the connection."""
    seed, count = order["mutated"]
    mutator = Mutator(seed, count)
    found = {"sent": 0, "good": 0, "errors": 0, "ended": 0}
    requester = None
    while mutator.left > 0:
        if requester is None:
            requester = Requester(host, port, order)
        rights = [requester.right(mutator.made + number) for number in range(min(TOGETHER, mutator.left))]
        wrong = [mutator.mutate(*right) for right in rights]
        found["sent"] += len(wrong)
        try:
            replies = requester.flood(wrong, GOOD)
            found["errors"] += sum(reply[12:16] == wire.words(wire.RDMA_ERROR) for reply in replies)
            found["good"] += sum(reply[12:16] != wire.words(wire.RDMA_ERROR) for reply in replies) - 1
        except Failed as reason:
            if "silence" in str(reason):
                raise
            found["ended"] += 1
            requester.close()
            requester = None
    if requester is not None:
        requester.close()
    return found


def carry_out(host, port, order):
    """Makes a connection, and the exchanges on it."""
    found = {"exchanges": [], "seen": []}
    try:
        if "mutated" in order:
            return {"mutated": send_mutated(host, port, order)}
        requester = Requester(host, port, order)
        found["private_data"], found["handle"] = requester.private_data.hex(), requester.handle
        for exchange in order.get("exchanges", []):
            if isinstance(exchange, int):
                requester.await_calls(exchange)
            elif isinstance(exchange, str):
                await_file(exchange)
            elif isinstance(exchange, dict) and "call" in exchange:
                requester.answer(exchange["call"], exchange["answers"])
            else:
                replies = requester.repeat(exchange) if isinstance(exchange, dict) else requester.exchange(exchange)
                found["exchanges"].append([reply.hex() for reply in replies])
                found["seen"].append(len(requester.calls))
        found["calls"] = [call.hex() for call in requester.calls]
        found["memory"] = requester.memory.hex()
        requester.end()
    except Failed as reason:
        found["failed"] = str(reason)
    return found


def main():
    """Carries out the orders."""
    host, port, orders = sys.argv[1:]
    with open(orders, encoding="ascii") as file:
        for order in json.load(file):
            print(json.dumps(carry_out(host, int(port), order)), flush=True)
    # Without freeing anything: what a client leaves behind is the server's to clean up.
    os._exit(0)


if __name__ == "__main__":
    main()
