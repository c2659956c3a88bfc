# SPDX-License-Identifier: GPL-2.0
"""Right messages made wrong at random, always the same way for a seed."""

import random
import struct

# Words that a careless reader takes for something.
WORDS = (0, 1, 2, 3, 4, 5, 16, 32, 0x7F, 0xFF, 0x1000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)
PAYLOAD = 2  # words of the payload that a transport looks at: the xid, and whether it is a reply
MAX_LENGTH = 1024  # bytes; a longer message would end the connection in the device


class Mutator:
    """Makes messages wrong, and counts them."""

    def __init__(self, seed, count):
        self._random = random.Random(seed)
        self.left = count
        self.made = 0

    def mutate(self, message, payload):
        """One to three mutations of the part of the message that a transport reads; its last `payload` bytes are RPC's.

        The RPC layer reads the rest: if it cannot, it sends the call again, on another connection.
        """
        end = len(message) - payload + 4 * PAYLOAD
        data, rest = bytearray(message[:end]), message[end:]
        self.left -= 1
        self.made += 1
        # A message with the xid of no call is checked no further, and most blind changes would make such messages.
        keeps_xid = self._random.random() < 0.9
        cut = self._random.random() < 0.05
        for _ in range(self._random.choice((1, 1, 1, 2, 2, 3))):
            self._random.choice(self._WAYS)(self, data)
        if keeps_xid:
            data[:4] = message[: min(4, len(data))]
        return bytes(data if cut else data + rest)[:MAX_LENGTH]

    def _at(self, data):
        """The offset of a word."""
        words = len(data) // 4
        return 4 * self._random.randrange(words) if words else None

    def _word(self, data):
        if (at := self._at(data)) is not None and at:
            struct.pack_into(">I", data, at, self._random.choice(WORDS))

    def _step(self, data):
        if (at := self._at(data)) is not None and at:
            (old,) = struct.unpack_from(">I", data, at)
            struct.pack_into(">I", data, at, (old + self._random.choice((1, -1, 4, -4, 0x80000000))) & 0xFFFFFFFF)

    def _bit(self, data):
        if (at := self._at(data)) is not None:
            data[at + self._random.randrange(4)] ^= 1 << self._random.randrange(8)

    def _cut(self, data):
        del data[self._random.randrange(len(data) + 1) :]

    def _short(self, data):
        """Less than every message has."""
        del data[self._random.randrange(16) :]

    def _credits(self, data):
        """Another grant."""
        data[8:12] = struct.pack(">I", self._random.choice((0, 0, 1, 2, 128, 0xFFFFFFFF)))

    def _error(self, data):
        """An RDMA_ERROR."""
        if len(data) >= 16:
            data[12:] = struct.pack(">II", 4, self._random.choice((0, 1, 2, 2, 3))) + self._random.randbytes(8)

    def _insert(self, data):
        if (at := self._at(data)) is not None:
            data[at:at] = struct.pack(">I", self._random.choice(WORDS))

    def _remove(self, data):
        if (at := self._at(data)) is not None:
            del data[at : at + 4]

    def _repeat(self, data):
        """A run of words once more, so that lists have more chunks and chunks more segments."""
        if (at := self._at(data)) is not None:
            data[at:at] = data[at : at + 4 * self._random.randrange(1, 9)]

    def _lists(self, data):
        """A list that no call has offered."""
        at = 16 + 4 * self._random.randrange(3)
        count = self._random.choice((0, 1, 2, 255, 0xFFFFFFF, 0xFFFFFFFF))
        if at < len(data):
            data[at : at + 4] = struct.pack(">II", 1, count) + self._random.randbytes(16 * self._random.randrange(3))

    _WAYS = (
        _word,
        _word,
        _word,
        _step,
        _step,
        _bit,
        _bit,
        _cut,
        _short,
        _credits,
        _error,
        _insert,
        _remove,
        _repeat,
        _lists,
    )
