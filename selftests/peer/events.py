# SPDX-License-Identifier: GPL-2.0
"""What the peer tells the tests: one line of JSON per event."""

import json
import os
import time


def say(event, **words):
    """Tells one event; `at` is the time in seconds, from a clock that only runs forward."""
    os.write(1, json.dumps({"event": event, "at": time.monotonic(), **words}).encode() + b"\n")
