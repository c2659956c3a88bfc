# SPDX-License-Identifier: GPL-2.0
"""Every name that the reference documents exists, and every name that exists is documented."""

from __future__ import annotations

import json
import re

from guests.harness.config import REPO
from guests.harness.network import SERVER
from guests.harness.pair import NFS_PORT, Pair
from guests.harness.registry import test
from guests.lib.documentation import names, table
from guests.lib.rules import ROOT, rule
from guests.lib.sight import DIRECTORY
from guests.lib.tool import tool


PAGE = "reference.rst"
EVENTS = "/sys/kernel/tracing/events/rpcrdma_rs"
PARAMETERS = "/sys/module/rpcrdma_rs/parameters"


def same(found: list[str], title: str) -> None:
    """The names found are the names of the section, in any order."""
    documented = names(PAGE, title)
    missing, unknown = set(documented) - set(found), set(found) - set(documented)
    assert not missing and not unknown, f"{title}: documented only: {missing}; there only: {unknown}"


@test("parameters, with their defaults and ranges", limit=60, allowed=(r"parameter \w+: -?\d+ is not in \d+\.\.\d+",))
def parameters(pair: Pair) -> None:
    """Parameters have the defaults of the reference, and take the ends of their ranges and nothing beyond."""
    client = pair.client
    same(client.run(f"ls {PARAMETERS}").lines, "Parameters")
    same(re.findall(r"^(\w+):", client.run("modinfo -p /share/rpcrdma_rs.ko").out, re.M), "Parameters")
    for row in table(PAGE, "Parameters"):
        (name,), default = row.names, row.cells[1]
        first, last = map(int, row.cells[2].split(".."))
        file = f"{PARAMETERS}/{name}"
        assert client.run(f"cat {file}").out.strip() == default, name
        for value in (first, last, default):
            client.run(f"echo {value} >{file}")
        for value in (first - 1, last + 1):
            done = client.run(f"/bin/echo {value} >{file}", check=False)
            assert "Invalid argument" in done.out, f"{name} took {value}: {done}"


@test("sysctls", limit=30)
def sysctls(pair: Pair) -> None:
    """The sysctls that come with the module: without it, they are not there."""
    here = "ls /proc/sys/sunrpc | sort"
    before = set(pair.client.run(here).lines)
    pair.unload_module()
    without = set(pair.client.run(here).lines)
    pair.load_module()
    same(sorted(before - without), "Sysctls")


@test("attributes of a rule", limit=30)
def attributes(pair: Pair) -> None:
    """The files of a new rule."""
    with rule(pair.client, "new"):
        same(pair.client.run(f"ls {ROOT}/new").lines, "Attributes of a rule")


@test("columns, lines and counters of a connection, and the members of its JSON", limit=60)
def connection(pair: Pair) -> None:
    """The head of the table, each line of a file, and each member of JSON, in the order of the reference; the server is
    remembered to have version 1 alone."""
    with rule(pair.client, "new", peer=SERVER.ipv4, version="auto"):
        described(pair)


def described(pair: Pair) -> None:
    """One connection."""
    pair.mount("4.2")
    pair.client.run("stat /mnt/nfs")
    head = pair.client.run(f"head -n 1 {DIRECTORY}/connections").out.split()
    assert head == names(PAGE, "Columns of the table"), head
    file = pair.client.run(f"grep -l '^peer .* port {NFS_PORT}$' {DIRECTORY}/xprt-*").out.strip()
    lines = [line.split()[0] for line in pair.client.run(f"cat {file}").lines]
    documented = names(PAGE, "Lines of a transport") + names(PAGE, "Counters")
    ends = {"closed", "failed"}
    assert [name for name in lines if name not in ends] == documented, lines
    found = json.loads(tool(pair, f"show {file.rpartition('-')[2]} --json"))
    passing = [row.names for row in table(PAGE, "JSON of a transport") if row.cells[1].startswith("only while")]
    listed = [
        name
        for name in names(PAGE, "JSON of a transport")
        if not name.startswith("ends.") and not any(name in some for some in passing)
    ]
    assert members(found) == listed, found
    assert list(found["counters"]) == names(PAGE, "Counters"), found
    pair.umount()


def members(value: dict[str, object]) -> list[str]:
    """The names of all members but counters and ends, which may be empty."""
    found = []
    for name, inner in value.items():
        if isinstance(inner, dict) and name != "counters":
            found += [f"{name}.{key}" for key in inner]
        elif name != "ends":
            found.append(name)
    return found


@test("trace events with their fields", limit=60, core=True)
def events(pair: Pair) -> None:
    """Names and fields of the events, which scripts rely on."""
    mounted = "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing"
    pair.client.run(mounted)
    found = pair.client.run(f"cd {EVENTS}; ls -d */ | tr -d /").lines
    same(found, "Trace events")
    for row in table(PAGE, "Trace events"):
        text = pair.client.run(f"cat {EVENTS}/{row.names[0]}/format").out
        # The fields that every event has come before the empty line.
        _, _, own = text.partition("\n\n")
        fields = re.findall(r"\bfield:[^;]*?(\w+)(?:\[\d*\])?;", own)
        assert sorted(fields) == sorted(row.cells[1].strip("`").split()), f"{row.names[0]}: {fields}"


@test("commands of the tool", limit=60)
def commands(pair: Pair) -> None:
    """Its help names them, and so does its manual page."""

    def listed(words: str) -> list[str]:
        return re.findall(r"^    (\w+) ", tool(pair, f"{words} --help"), re.M)

    found = [name for name in listed("") if name != "rule"] + [f"rule {name}" for name in listed("rule")]
    same(found, "Commands of the tool")
    page = (REPO / "packaging/rpcrdma.8").read_text()
    for name in found:
        assert re.search(rf'^\.B[IR]? "?{name}\b', page, re.M), f"the manual page does not explain {name}"


@test("the manual page of the module", limit=30)
def manual(pair: Pair) -> None:
    """It has every parameter with its default, every attribute, and every sysctl that has an effect."""
    page = (REPO / "packaging/rpcrdma_rs.4").read_text()
    found = re.findall(r'^\.BR (\w+) " \(default (\d+)\)"', page, re.M)
    assert dict(found) == {row.names[0]: row.cells[1] for row in table(PAGE, "Parameters")}, found
    for name in names(PAGE, "Attributes of a rule"):
        assert re.search(rf"^\.BR? {name}\b", page, re.M), f"no attribute {name}"
    for row in table(PAGE, "Sysctls"):
        if "has no effect" not in row.cells[1]:
            assert f"sunrpc.{row.names[0]}" in page, f"no sysctl {row.names[0]}"
