# SPDX-License-Identifier: GPL-2.0
"""Messages made wrong by order: a test names the changes to the right reply, as edits separated by commas.

N=HEX        word N (decimal, from 0) becomes that; several values with `.` between them become the words from N on
N+HEX        HEX is added to word N, modulo 2^32
N<HEX        inserts the words in front of word N
N-COUNT      removes COUNT words (decimal) from word N on
cut~BYTES    ends the message there
pad~BYTES    zero bytes follow
"""

import re
import struct

import wire

EDIT = re.compile(
    r"(?P<at>\d+)(?P<how>[=+<])(?P<hex>[0-9a-f.]+)|(?P<from>\d+)-(?P<count>\d+)|(?P<end>cut|pad)~(?P<n>\d+)"
)


def apply(message, edits):
    """The message with the edits made, in their order."""
    for text in edits.split(","):
        edit = EDIT.fullmatch(text)
        if edit is None:
            raise ValueError(f"no edit: {text}")
        message = one(message, edit)
    return message


def one(message, edit):
    """Makes one edit."""
    if edit["end"]:
        length = int(edit["n"])
        return message[:length] if edit["end"] == "cut" else message + bytes(length)
    if edit["from"]:
        start, count = 4 * int(edit["from"]), 4 * int(edit["count"])
        return message[:start] + message[start + count :]
    start, values = 4 * int(edit["at"]), [int(value, 16) for value in edit["hex"].split(".")]
    if edit["how"] == "<":
        return message[:start] + wire.words(*values) + message[start:]
    if edit["how"] == "+":
        (old,) = struct.unpack_from(">I", message, start)
        values = [(old + values[0]) & 0xFFFFFFFF]
    return message[:start] + wire.words(*values) + message[start + 4 * len(values) :]
