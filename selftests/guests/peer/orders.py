# SPDX-License-Identifier: GPL-2.0
"""Orders from a test to the peer while it runs, as lines of JSON in a named pipe.

    call        makes `count` reverse calls of a `procedure` on the newest connection, without waiting in between; with
                `padding`, their arguments have that many bytes more
    greet       the same, as soon as the next connection is established
    hold        from now on keeps the replies to ECHO calls back
    release     sends these replies, and holds no more
    step        sends these replies, and continues to hold
    misbehave   replies to the next ECHO calls in these `modes` (see modes.py), one each
    error       sends an RDMA_ERROR with an xid
    send        sends `messages` of any bytes, in hexadecimal digits, `count` times
    disconnect  ends the newest connection

Each order is followed by an event with its number.
"""

import itertools
import json
import os

import echo
import wire
from events import say

FIRST_XID = 0x72000000


class Orders:
    """The pipe, and the methods that carry out the orders that come from it."""

    def __init__(self, path, credits, let_go):
        os.mkfifo(path)
        # Opened for both, it does not end with the first writer.
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.holding = False
        self._modes = []
        self._let_go = let_go  # sends the replies that were kept, and counts them
        self._credits = credits
        self._rest = b""
        self._newest = None
        self._greeting = None
        self._xids = itertools.count(FIRST_XID)

    def follow(self):
        """Carries out the orders that have come."""
        *lines, self._rest = (self._rest + os.read(self.fd, 65536)).split(b"\n")
        for line in lines:
            words = json.loads(line)
            name, number = words.pop("order"), words.pop("number")
            say("order", order=name, number=number, **(getattr(self, name)(**words) or {}))

    def established(self, connection):
        """A connection is up."""
        self._newest = connection
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            say("greeted", **self.call(**greeting))

    def disconnected(self, connection):
        """A connection is down."""
        if self._newest is connection:
            self._newest = None

    def call(self, procedure=0, argument=None, count=1, credits=16, padding=0):
        """Makes reverse calls."""
        xids = [next(self._xids) for _ in range(count)]
        arguments = (b"" if argument is None else wire.words(argument)) + bytes(padding)
        for xid in xids:
            rpc = wire.rpc_call(xid, echo.REVERSE_PROGRAM, echo.REVERSE_VERSION, procedure, arguments)
            self._newest.send(wire.msg(xid, credits, rpc))
        return {"xids": xids, "connection": self._newest.number}

    def greet(self, **words):
        """Reverse calls for the next connection."""
        self._greeting = words

    def hold(self):
        """Holds from now on."""
        self.holding = True

    def release(self):
        """Ends the holding."""
        self.holding = False
        return self.step()

    def step(self):
        """Sends the replies that were kept."""
        return {"count": self._let_go()}

    def misbehave(self, modes):
        """Has modes for the next calls."""
        self._modes = modes

    def mode(self):
        """The mode of the reply to an ECHO call; None if none is ordered."""
        if self.holding:
            return "keep"
        return self._modes.pop(0) if self._modes else None

    def error(self, xid):
        """Replies that a message with this xid could not be decoded."""
        self._newest.send(wire.error(xid, self._credits, wire.ERR_CHUNK))

    def send(self, messages, count=1):
        """Sends messages."""
        for message in messages * count:
            self._newest.send(bytes.fromhex(message))

    def disconnect(self):
        """Ends the connection."""
        self._newest.disconnect()
