"""Sessions of programs that know no TLS of their own, or that read to the end of a connection: git, ssh, rsync, DNS; and MQTT behind a PROXY header."""

import sys
from pathlib import Path

from harness.machine import Process

from .databases import run
from .end_messages import MESSAGES, wait_for_marks

SERVERS = Path(__file__).resolve().parent / "small_servers.py"
SSHD = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
PermitRootLogin yes
UsePAM no
"""
RSYNCD = """pid file = {folder}/pid
log file = {folder}/log
use chroot = no
uid = root
gid = root
[data]
path = {folder}/data
read only = no
"""
MOSQUITTO = "listener {port} 127.0.0.1\nenable_proxy_protocol 2\nallow_anonymous true\nlistener {other} 127.0.0.1\nuser root\nlog_dest stdout\n"


def exists(path, size):
    """What is missing of a file."""
    found = path.stat().st_size if path.exists() else 0
    return "" if found == size else f"{path.name} has {found} of {size} bytes"


def git(place):
    folder, port = place.own_folder("git"), place.plain["git"]
    (folder / "work").mkdir()
    (folder / "work/data").write_bytes(b"x" * 300_000)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "data"], [*who, "commit", "-q", "-m", "data"]):
        run(["git", "-C", folder / "work", *words])
    run(["git", "clone", "-q", "--bare", folder / "work", folder / "repo.git"])
    place.start([sys.executable, SERVERS, "git", port, folder], port, output=folder / "out")

    def clone(port, mark):
        return ["env", f"GIT_SSL_CAINFO={place.ca}", "git", "clone", "-q", f"https://localhost:{port}/repo.git", folder / mark]

    for word, kind in (("git", "TCP mode"), ("git-http", "HTTP mode")):
        place.sessions(word, f"git clone, {kind}", clone, lambda mark: exists(folder / mark / "data", 300_000), ways=("front",))


def ssh(place):
    folder, port = place.own_folder("ssh"), place.plain["ssh"]
    for name in ("host", "user"):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name])
    (folder / "sshd.conf").write_text(SSHD.format(port=port, folder=folder))
    # It starts itself again for each connection, for which it needs its whole path.
    place.start(["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd.conf"], port)

    def copy(port, mark):
        tls = f"openssl s_client -quiet -verify_quiet -verify_return_error -CAfile {place.ca} -servername localhost -connect localhost:{port}"
        return ["ssh", "-F", "none", "-i", folder / "user", "-o", f"ProxyCommand={tls}", "-o", "StrictHostKeyChecking=no", "-o",
                "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "root@localhost", f"head -c 300000 /dev/zero > {folder / mark}"]

    place.sessions("ssh", "ssh, openssl s_client", copy, lambda mark: exists(folder / mark, 300_000), ways=("front",))


def rsync(place):
    folder, port = place.own_folder("rsync"), place.plain["rsync"]
    (folder / "data").mkdir()
    (folder / "data/kept").write_bytes(b"x" * 300_000)
    (folder / "source").write_bytes(b"x" * 300_000)
    (folder / "rsyncd.conf").write_text(RSYNCD.format(folder=folder))
    place.start(["rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}", f"--config={folder}/rsyncd.conf"], port)

    def rsync_ssl(port, *words):
        return ["env", f"RSYNC_SSL_CA_CERT={place.ca}", "rsync-ssl", "-q", f"--port={port}", *words]

    place.sessions("rsync", "rsync-ssl, to the server", lambda port, mark: rsync_ssl(port, folder / "source", f"localhost::data/{mark}"),
                   lambda mark: exists(folder / "data" / mark, 300_000), ways=("front",))
    place.sessions("rsync", "rsync-ssl, from the server",
                   lambda port, mark: rsync_ssl(port, "localhost::data/kept", folder / mark),
                   lambda mark: exists(folder / mark, 300_000), ways=("front",))


def dns(place):
    folder, port = place.own_folder("dns"), place.plain["dns"]
    place.start([sys.executable, SERVERS, "dns", port, folder], port, output=folder / "out")
    tls = [f"+tls-ca={place.ca}", "+tls-hostname=localhost"]
    for program in ("kdig", "dig"):

        def question(port, mark, program=program):
            words = " ".join([program, "@127.0.0.1", "-p", str(port), "+tls", *tls, "+short", f"{mark}x.example", "A"])
            return ["sh", "-c", f"{words} | grep -qx 192.0.2.1"]

        place.rows.group(f"dns, {program}", [program], lambda question=question, program=program: place.sessions(
            "dns", f"DNS over TLS, {program}", question, ways=("front",)))


def mqtt(place):
    """The broker refuses a connection without the header."""
    folder, port, other = place.own_folder("mqtt-proxied"), place.plain["mqtt-proxied"], place.tls["mqtt-proxied"]
    config, received, source = folder / "m.conf", folder / "received", folder / "lines"
    config.write_text(MOSQUITTO.format(port=port, other=other))
    place.start(["mosquitto", "-c", config], port, other, output=folder / "out")
    Process(["stdbuf", "-oL", "mosquitto_sub", "-p", other, "-t", "x", "-F", "%t %p", "-d"], None, received).wait_for("SUBACK")

    def pub(port, mark):
        source.write_text("".join(f"{mark}{number}\n" for number in range(MESSAGES)))
        return ["sh", "-c", f"mosquitto_pub -h localhost -p {port} --cafile {place.ca} -t x -l < {source}"]

    place.sessions("mqtt-proxied", "MQTT behind PROXY v2, mosquitto_pub", pub, lambda mark: wait_for_marks(received, f"x {mark}"), ways=("front",))


GROUPS = [
    ("git", ["git"], git),
    ("ssh", ["/usr/sbin/sshd", "ssh", "ssh-keygen", "openssl"], ssh),
    ("rsync", ["rsync", "rsync-ssl", "openssl"], rsync),
    ("dns", [], dns),
    ("mqtt behind a PROXY header", ["mosquitto", "mosquitto_pub", "mosquitto_sub"], mqtt),
]
