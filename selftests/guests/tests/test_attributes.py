# SPDX-License-Identifier: GPL-2.0
"""Names and attributes: long results of a size that is not known beforehand, which use Reply chunks."""

from guests.harness.pair import MOUNT_POINT, Pair
from guests.harness.registry import test
from guests.lib.mountstats import transport

VERSIONS = [{"vers": "3"}, {"vers": "4.2"}]


@test("directory of 3,000 names, vers={vers}", "V1-47", "V1-51", "F-5", limit=90, cases=VERSIONS, core=True)
def names(pair: Pair, vers: str) -> None:
    """Made by the client as links to one file, listed by both; READDIR replies come in Reply chunks."""
    count = pair.options.scaled(3000)
    pair.mount(vers)
    tail = "x" * 60
    script = f"""
    cd {MOUNT_POINT}; rm -rf names; mkdir names; cd names; echo one >first
    seq -f 'name-%06g-{tail}' {count - 1} >/tmp/names
    xargs -n 500 python3 -I -S -c 'import os, sys
for name in sys.argv[1:]: os.link("first", name)' </tmp/names
    """
    pair.client.run(script, 60)
    wanted = pair.client.run("(echo first; cat /tmp/names) | LC_ALL=C sort | sha256sum").out
    assert pair.server.run("ls -f1 /export/names | grep -v '^\\.' | LC_ALL=C sort | sha256sum").out == wanted
    pair.drop_caches()
    before = transport(pair.client, MOUNT_POINT)["reply_chunks"]
    assert pair.client.run(f"ls -f1 {MOUNT_POINT}/names | grep -v '^\\.' | LC_ALL=C sort | sha256sum", 60).out == wanted
    assert transport(pair.client, MOUNT_POINT)["reply_chunks"] > before, "no reply chunk was used"
    pair.server.run("rm -rf /export/names")
    pair.umount()


@test("symbolic links of 1,000 bytes, vers={vers}", "V1-45", "V1-46", "V1-47", limit=60, cases=VERSIONS)
def symlinks(pair: Pair, vers: str) -> None:
    """Targets from a few bytes to 1,000 and more, whose XDR length is no multiple of four either."""
    pair.mount(vers)
    script = f"mkdir -p {MOUNT_POINT}/links; cd {MOUNT_POINT}/links\n"
    lengths = [1, 2, 999, 1000, 1001, 1023, 1024, 3000, 4000]
    for length in lengths:
        script += f"ln -s $(printf '%0{length}d' {length}) {length}\n"
    pair.client.run(script)
    show = "for f in *; do echo $f $(readlink $f); done"
    wanted = sorted(f"{n} {n:0{n}d}" for n in lengths)
    assert sorted(pair.server.run(f"cd /export/links; {show}").lines) == wanted
    pair.drop_caches()
    assert sorted(pair.client.run(f"cd {MOUNT_POINT}/links; {show}; rm -r ../links").lines) == wanted
    pair.umount()


@test("user extended attributes, vers=4.2", "V1-46", "V1-47", "V1-51", limit=60, core=True)
def xattrs(pair: Pair) -> None:
    """Values from 1 to 40,000 bytes go both ways (RFC 8276); they can be listed and removed."""
    pair.mount("4.2")
    script = f"""
    cd {MOUNT_POINT}; rm -f attributes; touch attributes
    for n in 1 3 1000 4000 40000; do
        setfattr -n user.of$n -v 0s$(head -c $n /dev/zero | tr '\\000' $((n % 7)) | base64 -w0) attributes
    done
    """
    pair.client.run(script)
    show = "getfattr -d -e base64 attributes | LC_ALL=C sort | sha256sum; getfattr -d attributes | grep -c user.of"
    wanted = pair.server.run(f"cd /export; {show}").lines
    assert wanted[1] == "5", wanted
    pair.drop_caches()
    assert pair.client.run(f"cd {MOUNT_POINT}; {show}").lines == wanted
    pair.client.run(f"cd {MOUNT_POINT}; setfattr -x user.of1000 attributes")
    assert "of1000" not in pair.server.run("getfattr /export/attributes").out
    pair.umount()


@test("access control lists, vers=3", "V1-45", "V1-46", limit=60)
def acls_v3(pair: Pair) -> None:
    """The NFSACL side program shares the transport."""
    pair.mount("3")
    people = ",".join(f"u:{3000 + n}:r{'w' if n % 2 else '-'}-" for n in range(200))
    pair.client.run(f"touch {MOUNT_POINT}/acl; setfacl -m u:1234:rw,g:77:r,{people} {MOUNT_POINT}/acl")
    show = "getfacl -n -c -p"
    wanted = pair.server.run(f"{show} /export/acl").out
    assert "user:1234:rw-" in wanted and "user:3199:rw-" in wanted, wanted
    pair.drop_caches()
    assert pair.client.run(f"{show} {MOUNT_POINT}/acl; rm {MOUNT_POINT}/acl").out == wanted
    pair.umount()


@test("access control lists, vers=4.2", "V1-45", "V1-46", "V1-51", limit=60)
def acls_v4(pair: Pair) -> None:
    """An NFSv4 ACL read from one file and set on another gives the server the same POSIX ACL; mode bits as well."""
    pair.server.run(
        "cd /export; rm -f acl-*; touch acl-a acl-b; setfacl -m u:1234:rw,u:1235:r,g:77:r acl-a; chmod 4751 acl-b"
    )
    pair.mount("4.2")
    pair.client.run(f"chmod 2640 {MOUNT_POINT}/acl-b; stat -c %a {MOUNT_POINT}/acl-b | grep -qx 2640")
    assert pair.server.run("stat -c %a /export/acl-b").out == "2640\n"
    script = f"""
    cd {MOUNT_POINT}
    value=$(getfattr --only-values -n system.nfs4_acl acl-a | base64 -w0)
    setfattr -n system.nfs4_acl -v 0s$value acl-b
    """
    pair.client.run(script)
    show = "cd /export; getfacl -n -c acl-%s"
    wanted, got = (pair.server.run(show % name).out for name in "ab")
    assert got == wanted and "user:1234:rw-" in got, f"{wanted}\nagainst\n{got}"
    pair.umount()
