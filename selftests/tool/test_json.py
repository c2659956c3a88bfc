# SPDX-License-Identifier: GPL-2.0
"""The form of `--json`, which programs rely on: all of it, and as the reference documents it."""

from __future__ import annotations

from guests.lib.documentation import table

from .fake import PARAMETERS, ToolTest

TRANSPORT = {
    "side": "client",
    "xprt": 3,
    "peer": {"address": "192.0.2.1", "port": 20049},
    "state": "connected",
    "netns": 4026531840,
    "calls_waiting": 0,
    "waits_for": "nothing",
    "device": {"name": "rxe0", "port": 1},
    "gid": "0000:0000:0000:0000:0000:ffff:c000:0202",
    "protocol": {"version": 2, "permitted": "auto"},
    "since": 120,
    "rule": None,
    "private_data_sent": "f6ab0e1801010303",
    "private_data_received": "0102030405060708",
    "we_said": {"private_data": True, "send": 4096, "receive": 4096, "remote_invalidation": True},
    "server_said": {"private_data": True, "send": 2048, "receive": 16384, "remote_invalidation": True},
    "inline_call": {"bytes": 4096, "limited_by": "own"},
    "inline_reply": {"bytes": 2048, "limited_by": "peer"},
    "remote_invalidation": {"agreed": "on", "asked": "strict"},
    "reverse": True,
    "receive_size": {"bytes": 4096, "next": 16384, "left": 5},
    "peer_receive_size": {"bytes": 16384, "requested": 65536},
    "credits": {"asked": 128, "granted": 64, "used": 3, "abandoned": 0},
    "receives": {"posted": 131, "allocated": 136},
    "sends": {"posted": 2, "allocated": 40},
    "registrations": {"used": 6, "allocated": 16},
    "memory": {"used": 1080, "limit": 32768},
    "counters": {"remote_invalidates": 17, "late_replies": 2},
    "ends": [
        {"end": "closed", "ago": 130, "after": 20, "reason": "the server hung up"},
        {"end": "failed", "ago": 140, "reason": "resolving the address: no route", "code": -101},
    ],
}
SERVED = {
    "side": "server",
    "xprt": 3,
    "peer": {"address": "192.0.2.8", "port": 41234},
    "state": "connected",
    "netns": 4026531840,
    "replies_waiting": 1,
    "waits_for": "buffers",
    "device": {"name": "rxe0", "port": 1},
    "gid": "0000:0000:0000:0000:0000:ffff:c000:0202",
    "protocol": {"version": 2, "permitted": "auto"},
    "since": 60,
    "rule": None,
    "private_data_sent": "f6ab0e1801010303",
    "we_said": {"private_data": True, "send": 4096, "receive": 4096, "remote_invalidation": True},
    "client_said": {"private_data": False, "send": 1024, "receive": 1024, "remote_invalidation": False},
    "inline_call": {"bytes": 4096, "limited_by": "both"},
    "inline_reply": {"bytes": 1024, "limited_by": "peer"},
    "remote_invalidation": {"agreed": "off", "asked": "on"},
    "reverse": True,
    "receive_size": {"bytes": 4096},
    "peer_receive_size": {"bytes": 1024},
    "credits": {"asked": 128, "granted": 32, "used": 2, "most": 128},
    "receives": {"posted": 40, "allocated": 41},
    "sends": {"posted": 8, "allocated": 8},
    "registrations": {"used": 0, "allocated": 0},
    "memory": {"used": 52, "limit": 32768},
    "server_memory": {"used": 904, "limit": 1048576},
    "arguments": {"used": 1028, "limit": 4104, "waiting": 3},
    "server_arguments": {"used": 2056, "limit": 1048576},
    "counters": {"received": 1000, "calls": 990},
    "ends": [],
}
# Of a server that has version 1 alone.
REMEMBERED = {"version_1": {"cause": "answered", "left": 3588}}
SILENT_PEER = {"address": "fe80:1111:2222:3333:4444:5555:6666:7777%enp129s0f0np0", "port": 20049}
ROWS = [
    {
        "side": "client",
        "xprt": 3,
        "peer": {"address": "192.0.2.1", "port": 20049},
        "state": "connected",
        "netns": 4026531840,
        "calls_waiting": 0,
        "waits_for": "nothing",
        "device": {"name": "rxe0"},
        "since": 120,
        "protocol": {"version": 2},
        "rule": None,
        "inline_call": {"bytes": 4096, "limited_by": "own"},
        "inline_reply": {"bytes": 2048, "limited_by": "peer"},
        "remote_invalidation": {"agreed": "on"},
        "credits": {"asked": 128, "granted": 64, "used": 3},
        "receives": {"posted": 131},
        "registrations": {"used": 6},
        "memory": {"used": 1080},
    },
    {
        "side": "client",
        "xprt": 14,
        "peer": SILENT_PEER,
        "state": "connected",
        "netns": 4026532001,
        "calls_waiting": 5,
        "waits_for": "its turn",
        "device": {"name": "mlx5_0"},
        "since": 7,
        "protocol": {"version": 1},
        "rule": "12",
        "inline_call": {"bytes": 8192, "limited_by": "both"},
        "inline_reply": {"bytes": 8192, "limited_by": "both"},
        "remote_invalidation": {"agreed": "off"},
        "credits": {"asked": 32, "granted": 32, "used": 32},
        "receives": {"posted": 160},
        "registrations": {"used": 12},
        "memory": {"used": 2096},
    },
    {
        "side": "client",
        "xprt": 20,
        "peer": {"address": "2001:db8::9", "port": 20050},
        "state": "connecting",
        "netns": 4026531840,
    },
    {
        "side": "server",
        "xprt": 3,
        "peer": {"address": "192.0.2.8", "port": 41234},
        "state": "connected",
        "netns": 4026531840,
        "replies_waiting": 1,
        "waits_for": "buffers",
        "device": {"name": "rxe0"},
        "since": 60,
        "protocol": {"version": 0},
        "rule": None,
        "inline_call": {"bytes": 4096, "limited_by": "both"},
        "inline_reply": {"bytes": 1024, "limited_by": "peer"},
        "remote_invalidation": {"agreed": "off"},
        "credits": {"asked": 128, "granted": 32, "used": 2},
        "receives": {"posted": 40},
        "registrations": {"used": 0},
        "memory": {"used": 52},
    },
]


def members(value: object, name: str = "") -> list[str]:
    """The names of all members, with the members that contain them; counters have a table of their own."""
    if isinstance(value, dict) and name != "counters":
        return [found for key, inner in value.items() for found in members(inner, f"{name}.{key}".lstrip("."))]
    if isinstance(value, list):
        return sorted({found for inner in value for found in members(inner, name)})
    return [name]


def within(part: object, whole: object) -> bool:
    """Whether all members of one value are members of the other."""
    return set(members(part)) <= set(members(whole))


class Json(ToolTest):
    """The commands that print JSON."""

    def test_transport(self) -> None:
        """show XPRT --json: numbers, truth values and objects, no sentence"""
        self.assertEqual(self.run_tool("show", "3", "--json").data, TRANSPORT)

    def test_served(self) -> None:
        """show svc-NUMBER --json: a client's connection has the same form, with the client's words"""
        self.assertEqual(self.run_tool("show", "svc-3", "--json").data, SERVED)
        self.assertEqual(self.run_tool("show", "xprt-3", "--json").data, TRANSPORT)

    def test_silent(self) -> None:
        """show XPRT --json: of a server without private data; a rule whose name is a number has it as a text"""
        found = self.run_tool("show", "14", "--json").data
        self.assertEqual(found["peer"], SILENT_PEER)
        self.assertEqual((found["private_data_sent"], found["private_data_received"]), (None, None))
        said = {"private_data": False, "send": 1024, "receive": 1024, "remote_invalidation": False}
        self.assertEqual((found["we_said"], found["server_said"]), (said, said))
        self.assertEqual((found["rule"], found["reverse"], found["waits_for"]), ("12", False, "its turn"))
        self.assertEqual({"version_1": found["version_1"]}, REMEMBERED)
        self.assertEqual(found["ends"], [])

    def test_idle(self) -> None:
        """show XPRT --json: a transport without a connection has no member of one"""
        self.assertEqual(
            self.run_tool("show", "20", "--json").data,
            {
                "side": "client",
                "xprt": 20,
                "peer": {"address": "2001:db8::9", "port": 20050},
                "state": "connecting",
                "netns": 4026531840,
                "calls_waiting": 2,
                "waits_for": "connection",
                "counters": {"remote_invalidates": 0, "late_replies": 0},
                "ends": [{"end": "failed", "ago": 3, "reason": "connecting: refused", "code": 28}],
            },
        )

    def test_table(self) -> None:
        """show --json: the same members with the same names and forms, as far as the table has them"""
        found = self.run_tool("show", "--json").data
        self.assertEqual(found, ROWS)
        self.assertEqual(self.run_tool("--json", "show").data, ROWS)
        for row in found:
            self.assertTrue(within(row, SERVED if row["side"] == "server" else TRANSPORT), row)

    def test_watch(self) -> None:
        """watch --json: a line each time, with the time as a number"""
        done = self.run_tool("watch", "--json", "--count", "2", "--interval", "0")
        self.assertEqual(len(done.out.splitlines()), 2)
        for line in done.out.splitlines():
            found = self.tool.json.loads(line)
            self.assertEqual(found["connections"], ROWS)
            self.assertGreater(found["at"], 1.7e9)

    def test_explain(self) -> None:
        """explain --json: the transports of the mount, in the form of show XPRT"""
        self.assertEqual(self.run_tool("explain", "/mnt/below", "--json").data, [TRANSPORT])

    def test_rules(self) -> None:
        """rule list --json: numbers, truth values for switches, and the defaults in the words of rules"""
        self.rule("big", peer="192.0.2.0/24", port=20049, inline_send=8192, private_data="on", reverse="off")
        self.rule("strict", device="12", netns=4026531840, remote_invalidation="strict", credits=40, memory=512)
        self.rule("empty")
        self.rule("served", side="server", peer="192.0.2.0/24", connections=0)
        found = self.run_tool("rule", "list", "--json").data
        big = {"peer": "192.0.2.0/24", "port": 20049, "inline_send": 8192, "private_data": True, "reverse": False}
        strict = {"device": "12", "netns": 4026531840, "remote_invalidation": "strict", "credits": 40, "memory": 512}
        served = {"side": "server", "peer": "192.0.2.0/24", "connections": 0}
        self.assertEqual(found["rules"], {"big": big, "empty": {}, "served": served, "strict": strict})
        switches = {"remote_invalidation": "strict", "private_data": True, "version": "1"}
        client = {name: PARAMETERS.get(name, 4096) for name in self.tool.SETTINGS if name != "connections"}
        self.assertEqual(found["defaults"], client | switches | {"reverse": False})
        server = {"inline_send": 4096, "inline_receive": 4096, "inline_max": 1024}
        server |= {"credits": 64, "memory": 32768, "connections": 65536}
        self.assertEqual(found["server_defaults"], server | switches)

    def test_documented(self) -> None:
        """the reference has each member of JSON, and no other"""
        titles = ("JSON of a transport", "JSON of a client's connection")
        documented = [name for title in titles for row in table("reference.rst", title) for name in row.names]
        self.assertEqual(sorted(documented), sorted({*members(TRANSPORT | REMEMBERED), *members(SERVED)}))

    def test_writing_commands(self) -> None:
        """commands that print nothing refuse --json, before and after their names"""
        self.rule("big")
        for words in (("add", "new"), ("set", "big", "port=1"), ("del", "big"), ("reconnect", "big")):
            with self.subTest(words):
                self.refused(2, "json", "--json", "rule", *words)
                self.refused(2, "json", "rule", *words, "--json")
        self.assertEqual([path.name for path in self.rules.iterdir()], ["big"])

    def test_other_forms(self) -> None:
        """a line that a later module writes is passed on, a known one in another form is reported in one line"""
        file = self.sight / "xprt-3"
        file.write_text(
            file.read_text().replace("late_replies 2", "late_replies 2\nlater_counter 5\nlater_line of words")
        )
        found = self.run_tool("show", "3", "--json").data
        self.assertEqual(found["counters"]["later_counter"], 5)
        self.assertEqual(found["later_line"], "of words")
        file.write_text(file.read_text().replace("since 120 s", "since yesterday"))
        self.refused(1, "since yesterday", "show", "3", "--json")
        (self.sight / "connections").write_text("xprt peer\n1 2\n")
        self.refused(1, "connections", "show", "--json")
