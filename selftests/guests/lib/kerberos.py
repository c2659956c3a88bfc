# SPDX-License-Identifier: GPL-2.0
"""A Kerberos realm of two guests: the server is its key distribution centre, and both have a key for NFS."""

from __future__ import annotations

import shutil

from guests.harness.network import CLIENT, SERVER
from guests.harness.pair import MOUNT_POINT, Pair

FLAVOURS = ("krb5", "krb5i", "krb5p")
REALM = "TEST"
SERVER_NAME, CLIENT_NAME = "server.test", "client.test"
USER, PASSWORD = "alice", "secret"
USER_ID = 1000

CONFIGURATION = f"""
printf '%s\\n' '{SERVER.ipv4} {SERVER_NAME} server' '{CLIENT.ipv4} {CLIENT_NAME} client' >>/etc/hosts
cat >/etc/krb5.conf <<'END'
[libdefaults]
    default_realm = {REALM}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
[realms]
    {REALM} = {{
        kdc = {SERVER_NAME}
    }}
END
cat >/etc/idmapd.conf <<'END'
[General]
    Domain = test
    Local-Realms = {REALM}
[Mapping]
    Nobody-User = nobody
    Nobody-Group = nogroup
END
grep -q '^{USER}:' /etc/passwd || echo '{USER}:x:{USER_ID}:{USER_ID}::/tmp:/bin/sh' >>/etc/passwd
"""

# Keys are made at random, but for the user's.
REALM_UP = f"""
mkdir -p /etc/krb5kdc /var/lib/krb5kdc
echo {SERVER_NAME} >/proc/sys/kernel/hostname
kdb5_util create -s -r {REALM} -P master >/dev/null 2>&1
for name in nfs/{SERVER_NAME} nfs/{CLIENT_NAME}; do
    kadmin.local -q "addprinc -randkey $name" >/dev/null
    kadmin.local -q "ktadd -k /share/keytab-${{name#nfs/}} $name" >/dev/null
done
kadmin.local -q "addprinc -pw {PASSWORD} {USER}" >/dev/null
cp /share/keytab-{SERVER_NAME} /etc/krb5.keytab
krb5kdc
modprobe --ignore-install rpcsec_gss_krb5
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs 2>/dev/null || true
rpc.idmapd -S
setsid rpc.svcgssd -f -vv >/tmp/svcgssd.log 2>&1 </dev/null &
until grep -q 'channel' /tmp/svcgssd.log; do sleep 0.1; done
echo '/export *(rw,no_root_squash,no_subtree_check,insecure,fsid=0,sec=sys:krb5:krb5i:krb5p)' >/etc/exports
exportfs -ra
chmod 1777 /export
"""

CLIENT_JOINS = f"""
echo {CLIENT_NAME} >/proc/sys/kernel/hostname
cp /share/keytab /etc/krb5.keytab
modprobe --ignore-install rpcsec_gss_krb5
mkdir -p /run/rpc_pipefs
mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
setsid rpc.gssd -f -vv >/tmp/gssd.log 2>&1 </dev/null &
until ls -l "/proc/$(pidof rpc.gssd)/fd" 2>/dev/null | grep -q 'clntXX/gssd$'; do sleep 0.1; done
"""


def bring_up(pair: Pair) -> None:
    """Makes the realm, once for a pair of guests."""
    if pair.client.run("test -e /etc/krb5.keytab", check=False).rc == 0:
        return
    for guest in pair.guests:
        guest.run(CONFIGURATION)
    pair.server.run(REALM_UP, 60)
    shutil.copy(pair.server.share / f"keytab-{CLIENT_NAME}", pair.client.share / "keytab")
    pair.client.run(CLIENT_JOINS)


def mount_command(vers: str, flavour: str, where: str, options: str = "") -> str:
    """The command that mounts the export with a flavour of Kerberos, by the server's name, which its key is for."""
    words = [f"vers={vers}", "proto=rdma", "hard", f"sec={flavour}"]
    if vers.startswith("3"):
        words += ["nolock", "mountproto=tcp"]
    if options:
        words.append(options)
    path = "/export" if vers.startswith("3") else "/"
    return f"mkdir -p {where}; mount -t nfs -o {','.join(words)} {SERVER_NAME}:{path} {where}"


def mount(pair: Pair, vers: str, flavour: str, options: str = "") -> None:
    """Mounts the export with a flavour of Kerberos. A failure comes with what the daemons say."""
    bring_up(pair)
    done = pair.client.run(mount_command(vers, flavour, MOUNT_POINT, options), 60, check=False)
    if done.rc != 0:
        logs = [guest.run("tail -n 40 /tmp/*gssd.log").out for guest in pair.guests]
        raise AssertionError("\n".join([done.out, *logs]))
