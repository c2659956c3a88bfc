# SPDX-License-Identifier: GPL-2.0
"""The peer: listens, accepts with the private data it is told, replies to calls, and misbehaves on request.

Every event is one line of JSON; a signal USR1 adds one, before which all earlier ones are written. A signal USR2 has it
send the oldest reply that it has kept. The client chooses its misbehaviour by the names that it looks up:

    do-MODE[.ANYTHING]              the reply to this LOOKUP is in that mode (see modes.py), which may be edit:EDITS or
                                    then-right:EDITS (see edits.py)
    always-MODE[.ANYTHING]          likewise, and every time that it is sent again
    arm-MODE-at-PROCEDURE[.ANY]     the next call of that NFS procedure is

The first and the last do so once: sent again, the same LOOKUP gets the right reply. `--first MODE` does it to the first
call of all, `--first-of-each MODE` to the first call of each connection.

With `--mutate COUNT` each of COUNT calls, but NULL, gets a random wrong reply, and the right one once the client is
silent (see mutator.py); until then it reports events of connections only.

Besides NFSv3 it serves the program of rpcload_echo.ko, which ignores names. There, and for reverse calls, orders
come from a named pipe, `--orders PATH` (see orders.py).
"""

import argparse
import os
import re
import select
import signal
import sys
import time

import echo
import modes
import nfs
import wire
from endpoint import Connection, Listener
from events import say
from mutator import Mutator
from orders import Orders

# A mode in a name. A slash would end the name, so that the edits in it have a tilde there.
MODE = r"[a-z0-9-]+(?::[a-z0-9.,=+<~-]+)?"
HOLD_SECONDS = 1.0
MUTATED_SECONDS = 0.2
SHORT = 900  # bytes of an RPC reply that fits inline with any private data of the client


class Server:
    """The state that all connections share."""

    def __init__(self, options):
        self.options = options
        self.outcomes = options.connections.split(",")
        self.connections = {}
        self.number = 0
        self.first = options.first
        self.credits = options.credits
        self.begun = set()  # numbers of the connections that have brought a call
        self.armed = {}  # NFS procedure -> mode
        self.used = set()
        self.operations = []  # xids of operations that are to be refused
        self.last_handle = self.last_middle = None
        self.held = []  # (connection, query)
        self.kept = []  # (connection, query, handle)
        self.release_at = None
        self.mutator = Mutator(options.seed, options.mutate)
        self.orders = Orders(options.orders, options.credits, self.let_all_go)
        self.asked, self.ask = os.pipe()  # a byte for each reply that is to be let go

    # Connection management

    def outcome(self, number):
        """The outcome of the `number`th request to connect; the last option holds for the rest."""
        return self.outcomes[min(number, len(self.outcomes)) - 1]

    def requested(self, event):
        """A client wants to connect: the options give the outcome, by the number of the request."""
        self.number += 1
        outcome = self.outcome(self.number)
        say("connect", number=self.number, private_data=event.private_data.hex(), outcome=outcome)
        if outcome == "reject":
            event.reject(self.options.reject_data)
            return
        connection = Connection(event, self.number, self.options.receives, self.options.receive_size)
        self.connections[event.key] = connection
        connection.accept(self.options.private_data)

    def established(self, event):
        """The connection is up."""
        connection = self.connections[event.key]
        say("established", number=connection.number)
        connection.established()
        if self.outcome(connection.number) == "disconnect":
            connection.disconnect()
        else:
            self.orders.established(connection)

    def disconnected(self, event):
        """The connection is down, ended by either side."""
        connection = self.connections.pop(event.key, None)
        if connection is not None:
            say("disconnected", number=connection.number)
            self.held = [held for held in self.held if held[0] is not connection]
            self.kept = [kept for kept in self.kept if kept[0] is not connection]
            self.orders.disconnected(connection)
            connection.close()

    # Messages

    def received(self, connection, message):
        """One message from the client."""
        header, payload = wire.decode(message)
        inline = header.get("proc") == wire.RDMA_MSG
        accepted, results = wire.decode_reply(payload) if inline else (None, b"")
        if accepted is not None:
            words = {"connection": connection.number, "length": len(message), **header}
            say("reverse-reply", **words, rpc=accepted, right=echo.is_right(results))
            return
        call, arguments = wire.decode_call(payload) if inline else (None, b"")
        name = nfs.looked_up(call, arguments)
        if not self.mutator.left:
            say("message", connection=connection.number, length=len(message), **header, rpc=call, name=name)
        if header.get("operation") is not None and "malformed" not in header:
            self.operated(connection, header)
            return
        # A call that was faster than the disconnect gets no reply.
        if "malformed" in header or self.outcome(connection.number) == "disconnect":
            return
        if call is not None:
            service = echo if call["prog"] == echo.PROGRAM else nfs
            reply = service.reply(call, arguments)
        elif header["proc"] == wire.RDMA_NOMSG:
            # A Long call, which this peer does not fetch.
            reply = wire.rpc_reply(header["xid"], status=wire.SYSTEM_ERR)
        else:
            return
        if self.options.mutate and (len(reply) > SHORT or wire.decode_reply(reply)[0]["status"] != wire.SUCCESS):
            # A reply that does not fit inline has to fail. After most errors the RPC layer sends the call again, on
            # another connection; not after this one.
            reply = wire.rpc_reply(header["xid"], status=wire.PROC_UNAVAIL)
        lasts = (self.last_handle, self.last_middle)
        query = modes.Query(header, reply, self.credits, unused(header), header, *lasts)
        # A client connects with calls of NULL.
        if self.mutator.left and (call is None or call["proc"]):
            self.mutate(connection, query)
            return
        self.act(connection, query, self.mode_of(connection, call, name))
        for chunk in [*header["write"], header["reply"] or []]:
            if chunk:
                self.last_handle, self.last_middle = chunk[0]["handle"], chunk[len(chunk) // 2]["handle"]

    def operated(self, connection, header):
        """
        An optional operation of version 2: refused (with `refuse-both` not before a request has come, too), responded
        to without a word on sizes, answered with a size, ignored, or the end of the connection, by the options.
        """
        how, xid = self.options.operations, header["xid"]
        if how == "disconnect":
            connection.disconnect()
        elif how.startswith("refuse") and header["direction"] == wire.CALL:
            self.operations.append(xid)
            if how == "refuse" or header["operation"] == wire.REQXCH:
                while self.operations:
                    connection.send(wire.error(self.operations.pop(0), self.credits, wire.INVAL_OPTION, vers=2))
        elif how.isdigit() and header["operation"] == wire.INITXCH:
            start = wire.characteristics((wire.RBSIZ, int(how)))
            connection.send(wire.optional(1, 1, wire.CALL, wire.INITXCH, start + wire.words(0)))
        elif (how == "respond" or how.isdigit()) and header["operation"] == wire.REQXCH:
            connection.send(wire.optional(xid, self.credits, wire.REPLY, wire.RESPXCH, wire.words(0, 0, 0)))

    def mode_of(self, connection, call, name):
        """The mode of the reply to a call."""
        first_of_it = connection.number not in self.begun
        self.begun.add(connection.number)
        if self.first:
            mode, self.first = self.first, None
            return mode
        if first_of_it and self.options.first_of_each:
            return self.options.first_of_each[min(connection.number, len(self.options.first_of_each)) - 1]
        if call and (call["prog"], call["proc"]) == (echo.PROGRAM, echo.ECHO):
            return self.orders.mode() or "right"
        mode = self.armed.pop(call["proc"], None) if call and call["prog"] == nfs.PROGRAM else None
        if mode:
            return mode
        if name is None or name in self.used:
            return "right"
        if always := re.match(rf"always-({MODE})", name):
            return always[1]
        if armed := re.match(rf"arm-({MODE})-at-([A-Z]+)", name):
            self.used.add(name)
            self.armed[getattr(nfs, armed[2])] = armed[1]
        elif order := re.match(rf"do-({MODE})", name):
            self.used.add(name)
            return order[1]
        return "right"

    def act(self, connection, query, mode):
        """Replies to a call in a mode."""
        if mode != "right":
            say("misbehaves", mode=mode, xid=query.xid)
        for step in modes.steps(mode, query):
            if isinstance(step, modes.Disconnect):
                connection.disconnect()
            elif isinstance(step, modes.Deliver):
                connection.deliver()
            elif isinstance(step, modes.Immediate):
                connection.immediate()
            elif isinstance(step, modes.Hold):
                self.held.append((connection, query))
                self.release_at = time.monotonic() + HOLD_SECONDS
                say("held", count=len(self.held))
            elif isinstance(step, modes.Keep):
                self.kept.append((connection, query, step.handle))
            elif isinstance(step, modes.LetGo):
                self.let_all_go()
            elif isinstance(step, modes.Grant):
                self.credits = step.credits
            else:
                connection.send(step.message, step.handle)

    def mutate(self, connection, query):
        """Sends a wrong reply, and the right one when the client is silent: it may have dropped the first."""
        connection.send(self.mutator.mutate(query.reply().message, len(query.payload)))
        if not self.mutator.left:
            say("mutated", count=self.mutator.made)
        self.held.append((connection, query))
        self.release_at = time.monotonic() + MUTATED_SECONDS

    def release(self):
        """The client has been silent for long enough: sends the replies that were held back."""
        if not self.mutator.made:
            say("released", count=len(self.held))
        held, self.held, self.release_at = self.held, [], None
        for connection, query in held:
            connection.send(query.reply(self.credits).message)

    def let_all_go(self):
        """Sends all replies that were kept, and counts them."""
        count = len(self.kept)
        while self.kept:
            self.let_go()
        return count

    def let_go(self):
        """Sends the oldest reply that was kept."""
        connection, query, handle = self.kept.pop(0)
        say("let-go", xid=query.xid, left=len(self.kept))
        connection.send(query.reply(self.credits).message, handle)

    # The loop

    def run(self):
        """Runs until the process is ended."""
        signal.signal(signal.SIGUSR2, lambda number, frame: os.write(self.ask, b"."))
        listener = Listener(self.options.port)
        say("listening", port=self.options.port, pid=os.getpid())
        while True:
            watched = {listener.fd: None, self.asked: self.asked, self.orders.fd: self.orders}
            watched |= {c.fd: c for c in self.connections.values()}
            wait = None if self.release_at is None else max(0.0, self.release_at - time.monotonic())
            ready = select.select(list(watched), [], [], wait)[0]
            if not ready and self.release_at is not None:
                self.release()
            for fd in ready:
                connection = watched[fd]
                if connection is None:
                    self.manage(listener)
                elif connection == self.asked:
                    os.read(self.asked, 1)
                    # The connection of the reply may have ended by now.
                    if self.kept:
                        self.let_go()
                elif connection is self.orders:
                    self.orders.follow()
                elif connection in self.connections.values():
                    for message in connection.receive():
                        self.received(connection, message)
                    for problem in connection.problems():
                        say("failed", connection=connection.number, what=problem)

    def manage(self, listener):
        """One event of the connection manager."""
        with listener.event() as event:
            handler = {"request": self.requested, "established": self.established, "disconnected": self.disconnected}
            if event is None:
                return
            if event.kind in handler:
                handler[event.kind](event)
            else:
                say("other", kind=event.kind)
        # An identifier can only be destroyed once its events are acknowledged.
        for connection in Connection.closed:
            connection.destroy()
        Connection.closed.clear()


def unused(header):
    """The lists to return for the offer of a call, with nothing placed in any chunk."""
    empty = [[(s["handle"], 0, s["offset"]) for s in chunk] for chunk in header["write"]]
    reply = None if header["reply"] is None else [(s["handle"], 0, s["offset"]) for s in header["reply"]]
    return wire.lists(write=empty, reply=reply)


def check_mode(mode):
    """A mode by its name."""
    if mode not in modes.MODES:
        raise argparse.ArgumentTypeError(f"no mode {mode}")
    return mode


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="peer")
    parser.add_argument("--port", type=int, default=20049)
    parser.add_argument("--private-data", type=bytes.fromhex, default=b"", help="bytes to accept with, hexadecimal")
    parser.add_argument("--reject-data", type=bytes.fromhex, default=b"", help="bytes to reject with, hexadecimal")
    parser.add_argument(
        "--connections", default="ok", help="outcomes of requests to connect: ok, reject, disconnect by comma"
    )
    parser.add_argument("--first", choices=modes.MODES, help="mode of the reply to the first call")
    parser.add_argument(
        "--first-of-each",
        type=lambda text: [check_mode(mode) for mode in text.split(",")],
        help="likewise, the first call of each connection, by comma; the last is for all further ones",
    )
    parser.add_argument(
        "--operations",
        default="refuse",
        help="optional operations: refuse, refuse-both, respond, ignore, disconnect, or the own size",
    )
    parser.add_argument("--mutate", type=int, default=0, help="calls to reply to wrongly, at random")
    parser.add_argument("--seed", type=int, default=8166, help="seed of that")
    parser.add_argument("--credits", type=int, default=32, help="credits to grant")
    parser.add_argument("--receives", type=int, default=48, help="Receives to post")
    parser.add_argument("--receive-size", type=int, default=262144, help="bytes of each")
    parser.add_argument("--orders", required=True, help="named pipe to make, from which orders come")
    signal.signal(signal.SIGUSR1, lambda number, frame: say("sync"))
    Server(parser.parse_args(sys.argv[1:])).run()


main()
