# SPDX-License-Identifier: GPL-2.0
"""The events that the peer reports to the tests: one line of JSON each."""

import json
import os
import time


def say(event, **words):
    """Reports one event; `at` is the time in seconds, from a clock that only runs forward."""
    os.write(1, json.dumps({"event": event, "at": time.monotonic(), **words}).encode() + b"\n")
