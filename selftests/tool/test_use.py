# SPDX-License-Identifier: GPL-2.0
"""Names, exit statuses, help, the table and completion."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess

from .fake import REPO, TRANSPORT, ToolTest

COMPLETION = REPO / "tools/rpcrdma.bash"
PAGE = REPO / "packaging/rpcrdma.8"
NO_NAMES = ("../x", "../../x", "/tmp/x", "a/b", ".", "..", ".hidden", "", "none", "two words", "größe", "x" * 64)


class Names(ToolTest):
    """Names of rules and numbers of transports that would lead elsewhere."""

    def test_rules(self) -> None:
        """rule add, set, del and reconnect refuse names that are no names of rules, and touch nothing"""
        outside = self.root / "x"
        outside.mkdir()
        (outside / "port").write_text("any\n")
        (outside / "reconnect").write_text("untouched\n")
        for name in NO_NAMES:
            for words in (("add", name), ("set", name, "port=1"), ("del", name), ("reconnect", name)):
                with self.subTest(words):
                    self.refused(2, "no name of a rule", "rule", *words)
        self.assertEqual(list(self.rules.iterdir()), [])
        self.assertEqual(sorted(path.name for path in outside.iterdir()), ["port", "reconnect"])
        self.assertEqual((outside / "reconnect").read_text(), "untouched\n")

    def test_transports(self) -> None:
        """show takes the number of a transport and nothing else"""
        (self.root / "secret").write_text("peer 192.0.2.1 port 1\n")
        for number in ("../../x", "x", "3/../3", "-1", "3 4", "", "1.5"):
            with self.subTest(number):
                done = self.run_tool("show", number)
                self.assertEqual((done.status, done.out), (2, ""), done)
        self.assertEqual(self.run_tool("show", "3").out, TRANSPORT)
        self.refused(1, "there is no transport 99", "show", "99")


class Changes(ToolTest):
    """`rpcrdma set`."""

    def test_set(self) -> None:
        """set writes the changes of a connection to its file, one after the other"""
        for number, file in (("3", "xprt-3"), ("svc-3", "svc-3")):
            written = []
            (self.sight / file).write_text("")
            real = self.tool.Path.open

            class Recorded(type(self.sight)):
                """A path whose writes are kept."""

                def open(self, mode: str = "r", *rest: object) -> object:
                    written.append((self.name, mode))
                    return real(self, mode, *rest)

            self.tool.SIGHT = Recorded(self.sight)
            done = self.run_tool("set", number, "receive-size=65536", "peer-receive-size=8192")
            self.assertEqual((done.status, done.out, done.err), (0, "", ""), done)
            self.assertEqual(written, [(file, "r+")] * 2)
            self.assertEqual((self.sight / file).read_text(), "peer-receive-size=8192\n")

    def test_refused(self) -> None:
        """set names what it knows, and gives the reason of the kernel in words"""
        self.refused(1, "give CHANGE=BYTES with one of receive-size peer-receive-size", "set", "3", "size=1")
        self.refused(1, "there is no transport 99", "set", "99", "receive-size=4096")
        self.refused(2, "required", "set", "3")
        for number, why in self.tool.UNCHANGED.items():

            class Refusing(type(self.sight)):
                """A path that is refused."""

                def open(self, *_: object) -> object:
                    raise OSError(number, "refused")

            self.tool.SIGHT = Refusing(self.sight)
            self.refused(1, why, "set", "3", "receive-size=4096")


class Rules(ToolTest):
    """The writing commands."""

    def test_order(self) -> None:
        """attributes are written in the order in which they may take effect: settings first, then the widest selection last"""
        written = []
        self.rule("big")
        real = self.tool.Path.write_text
        self.tool.Path = type(self.rules)

        def write(path: object, text: str) -> int:
            written.append((path.name, text))
            return real(path, text)

        self.addCleanup(setattr, self.tool.Path, "write_text", real)
        self.tool.Path.write_text = write
        self.assertEqual(self.run_tool("rule", "set", "big", "peer=192.0.2.1", "memory=512", "credits=40").status, 0)
        self.assertEqual(written, [("credits", "40\n"), ("memory", "512\n"), ("peer", "192.0.2.1\n")])

    def test_unknown(self) -> None:
        """an attribute that is not there is refused before anything is made"""
        self.refused(1, "give ATTRIBUTE=VALUE", "rule", "add", "odd", "colour=red")
        self.refused(1, "give ATTRIBUTE=VALUE", "rule", "add", "odd", "port=1", "reconnect=1")
        self.refused(1, "give ATTRIBUTE=VALUE", "rule", "add", "odd", "port")
        self.assertEqual(list(self.rules.iterdir()), [])

    def test_missing(self) -> None:
        """a rule that is not there, or is there already, is status 1"""
        self.refused(1, "there is no rule big", "rule", "set", "big", "port=1")
        self.refused(1, "rule big", "rule", "del", "big")
        self.refused(1, "rule big", "rule", "reconnect", "big")
        self.rule("big")
        self.refused(1, "rule big: File exists", "rule", "add", "big")

    def test_list(self) -> None:
        """rule list says what rules and parameters say, in the words of rules"""
        self.rule("big", port=20049, inline_send=8192)
        self.rule("new")
        self.assertEqual(
            self.run_tool("rule", "list").out.splitlines(),
            [
                "big: port=20049 inline_send=8192",
                "new: matches no connection yet",
                "all others, side client: inline_send=4096 inline_receive=4096 remote_invalidation=strict credits=128"
                " private_data=on reverse=off memory=32768 version=1 inline_max=1024",
                "all others, side server: inline_send=4096 inline_receive=4096 remote_invalidation=strict credits=64"
                " private_data=on memory=32768 connections=65536 version=1 inline_max=1024",
            ],
        )


class Statuses(ToolTest):
    """Exit statuses, as the manual page has them."""

    def test_documented(self) -> None:
        """the manual page has the statuses 0, 1, 2 and 130"""
        text = PAGE.read_text().partition(".SH EXIT STATUS")[2].partition(".SH")[0]
        self.assertEqual(re.findall(r"^\.B (\d+)$", text, re.M), ["0", "1", "2", "130"])

    def test_usage(self) -> None:
        """errors in the use of the command are status 2"""
        for words in (
            (),
            ("frobnicate",),
            ("show", "1", "2"),
            ("rule",),
            ("rule", "add"),
            ("rule", "set", "big"),
            ("watch", "--interval", "-1"),
            ("watch", "--interval", "nan"),
            ("watch", "--count", "-1"),
        ):
            with self.subTest(words):
                done = self.run_tool(*words)
                self.assertEqual((done.status, done.out), (2, ""), done)
                self.assertIn("usage:", done.err)

    def test_missing_module(self) -> None:
        """without the module, or with the in-tree one, status 1 and a line that says so"""
        shutil.rmtree(self.sight)
        shutil.rmtree(self.rules)
        for words in (("show",), ("show", "3"), ("rule", "list"), ("rule", "add", "new"), ("explain", "/mnt")):
            with self.subTest(words):
                self.refused(1, "debugfs is not mounted" if words[0] != "rule" else "configfs is not mounted", *words)
        (self.places["MODULES"] / "rpcrdma_rs").rmdir()
        self.refused(1, "the module rpcrdma_rs is not loaded", "show")
        (self.places["MODULES"] / "rpcrdma").mkdir()
        self.refused(1, "the in-tree module rpcrdma is loaded", "show")

    def test_interrupt(self) -> None:
        """an interrupt ends watch with status 130, without a trace"""
        with self.start("watch", "--interval", "3600", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
            self.assertTrue(job.stdout.readline())
            job.send_signal(signal.SIGINT)
            self.assertEqual((job.wait(60), job.stderr.read()), (130, ""))

    def test_closed_pipe(self) -> None:
        """a reader that has gone ends any command with status 130, without a word"""
        for words in (("show",), ("show", "--json"), ("watch", "--interval", "0")):
            with self.subTest(words):
                reader, writer = os.pipe()
                os.close(reader)
                with self.start(*words, stdout=writer, stderr=subprocess.PIPE) as job:
                    os.close(writer)
                    self.assertEqual((job.wait(60), job.stderr.read()), (130, ""))

    def test_version(self) -> None:
        """--version names the version of the package"""
        version = re.search(r"\((.*?)\)", (REPO / "packaging/debian/changelog").read_text())[1]
        done = self.run_tool("--version")
        self.assertEqual((done.status, done.out), (0, f"rpcrdma {version}\n"))


class Help(ToolTest):
    """The attributes in the help."""

    def attributes(self) -> dict[str, str]:
        """The attributes with their values, as the module's messages have them."""
        source = (REPO / "src/config/rules.rs").read_text()
        found = dict(re.findall(r'^attribute!\(\d+ "(\w+)",.*?"([^"]+)"\);$', source, re.M | re.S))
        self.assertEqual(len(found), 15)
        return found

    def test_attributes(self) -> None:
        """rule add --help and rule set --help list each attribute, with the values of the module's own messages"""
        for action in ("add", "set"):
            text = self.run_tool("rule", action, "--help").out
            listed = dict(re.findall(r"^  (\w+) {2,}(.*)$", text.partition("ATTRIBUTE")[2], re.M))
            for name, values in self.attributes().items():
                with self.subTest(f"{action} {name}"):
                    self.assertIn(name, listed)
                    for word in re.findall(r"\d+(?:[.\d]*\d)?(?:/\d+)?|\b(?:any|default|on|off|strict)\b", values):
                        self.assertIn(word, listed[name])

    def test_parameters(self) -> None:
        """the help names the parameters that are the defaults of settings under another name"""
        text = self.run_tool("rule", "add", "--help").out
        for name in ("max_inline_send", "max_inline_receive", "server_inline", "server_credits"):
            self.assertIn(name, text)

    def test_description(self) -> None:
        """the help and the manual page say what the command is for in plain words"""
        text = self.run_tool("--help").out + PAGE.read_text()
        self.assertNotRegex(text, r"rule them|rules them|`rpcrdma --help`")

    def test_json(self) -> None:
        """only commands that print JSON offer it"""
        for words in (("show",), ("watch",), ("explain",), ("rule", "list")):
            self.assertIn("--json", self.run_tool(*words, "--help").out)
        for action in ("add", "set", "del", "reconnect"):
            self.assertNotIn("--json", self.run_tool("rule", action, "--help").out)


class Table(ToolTest):
    """The table for people."""

    def test_columns(self) -> None:
        """columns stay in line with peers of any length"""
        head, *lines = self.run_tool("show").out.splitlines()
        self.assertEqual(len(lines), 4)
        for name, texts in {
            "side": ("client", "client", "client", "server"),
            "device": ("rxe0", "mlx5_0", "-"),
            "netns": ("4026531840", "4026532001", "4026531840"),
            "state": ("connected", "connected", "connecting"),
            "for": ("nothing", "its turn"),
            "rule": ("none", "12"),
        }.items():
            at = re.search(rf"\b{name}\b", head).start()
            for line, text in zip(lines, texts):
                self.assertTrue(line[at:].startswith(text) and line[at - 1 : at] in ("", " "), f"{name}: {line}")
        for name, texts in {"since": ("120s", "7s"), "KiB": ("1080", "2096"), "wait": ("0", "5")}.items():
            end = re.search(rf"(?<= ){name}\b", head).end()
            for line, text in zip(lines, texts):
                self.assertTrue(line[:end].endswith(f" {text}"), f"{name}: {line}")
        self.assertTrue(all(line == line.rstrip() for line in lines))

    def test_empty(self) -> None:
        """without a transport there is a head, and an empty list"""
        table = self.sight / "connections"
        table.write_text(table.read_text().splitlines()[0] + "\n")
        self.assertEqual(self.run_tool("show").out.split(), table.read_text().split())
        self.assertEqual(self.run_tool("show", "--json").data, [])


class Completion(ToolTest):
    """Completion in bash."""

    def offered(self, *words: str) -> list[str]:
        """What is offered for the last word."""
        script = 'source "$0"; COMP_WORDS=(rpcrdma "$@"); COMP_CWORD=$#; _rpcrdma; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, COMPLETION, *words], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands(self) -> None:
        """commands and actions are those of the help"""
        listed = re.findall(r"^    (\w+) ", self.run_tool("--help").out, re.M)
        self.assertEqual([word for word in self.offered("") if word[0] != "-"], listed)
        self.assertEqual(
            self.offered("rule", ""), re.findall(r"^    (\w+) ", self.run_tool("rule", "--help").out, re.M)
        )
        self.assertEqual(self.offered("w"), ["watch"])

    def test_attributes(self) -> None:
        """attributes are those of the tool"""
        every = [f"{name}=" for name in (*self.tool.MATCH, *self.tool.SETTINGS)]
        self.assertEqual(self.offered("rule", "add", "new", ""), every)
        sizes = ["inline_send=", "inline_receive=", "inline_max="]
        self.assertEqual(self.offered("rule", "set", "new", "port=1", "inline"), sizes)
