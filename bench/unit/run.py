"""The program of scripts/systemd: the rows, in the order in which a service lives."""

import os
import re
import subprocess
import sys

from harness import rows
from harness.machine import Failed, wait_until
from web import tools

from .service import Service, lives_on, served
from .world import World

PROGRAMS = ("systemctl", "dbus-daemon", "openssl", "curl", "ip", "unshare", "nsenter")
SECOND_SERVICE = """[[service]]
name = "more"
listen = "127.0.0.1:444"
backend = "127.0.0.1:7643"
certificate = { certificate = "certificate.pem", key = "key.pem" }
"""
WRONG = "nonsense = 1\n"
FORBIDDEN = re.compile("sandbox|denied|not permitted|panicked", re.I)
CURL_REFUSED = 7


class Life:
    """Rows about one service."""

    def __init__(self, found, service):
        self.rows, self.service = found, service

    def row(self, name, *steps):
        """`ok` when no step fails or gives False."""
        try:
            wrong = next((f"step {number} of {len(steps)} does not hold" for number, step in enumerate(steps, 1) if step() is False), "")
        except (Failed, OSError, subprocess.SubprocessError) as problem:
            wrong = str(problem)
        self.rows.check(name, wrong)

    def start_and_reload(self):
        service = self.service
        written = [service.world.root / path for path in ("var/lib/handfast/tickets.key", "var/log/handfast/access.log")]
        self.row("start waits for ready", lambda: service.systemctl("start", "handfast"), lambda: service.systemctl("-q", "is-active", "handfast"))
        self.row("status sentence", lambda: service.property("StatusText").startswith("Serving"))
        self.row("serves", service.must_live)
        self.row("the example writes where the unit lets it",
                 lambda: wait_until("both files", lambda: all(path.exists() and path.stat().st_size for path in written)))
        self.row("reload", lambda: service.systemctl("reload", "handfast"), service.must_live)
        service.write(more=WRONG)
        service.world.run("systemctl", "reload", "handfast")
        self.row("a process with a refused reload keeps serving and reports it", service.must_live,
                 lambda: wait_until("a status with `refused`", lambda: "refused" in str(service.property("StatusText"))))
        service.write()
        service.systemctl("reload", "handfast")

    def upgrade(self):
        service = self.service
        held, old = service.hold(), service.property("MainPID")
        self.row("upgrade", lambda: service.must("handfast", "upgrade", "-c", "/etc/handfast/handfast.toml"), lambda: service.other_process(old),
                 service.must_live)
        self.row("active after it", lambda: service.systemctl("-q", "is-active", "handfast"), lambda: service.property("NRestarts") == 0)
        self.row("a connection held over it lives on", lambda: lives_on(held))
        self.row("reload after it", lambda: service.systemctl("reload", "handfast"), service.must_live)
        held, old = service.hold(), service.property("MainPID")
        self.row("an upgrade of the package replaces the process", lambda: service.must("/postinst", "configure", "0.0.1"),
                 lambda: service.other_process(old), service.must_live)
        self.row("a connection held over that lives on", lambda: lives_on(held), lambda: service.property("NRestarts") == 0)
        old = service.property("MainPID")
        service.write(more=WRONG)
        self.row("with a wrong configuration it leaves the process", lambda: service.must("/postinst", "configure", "0.0.1"),
                 lambda: service.property("MainPID") == old, service.must_live)
        service.write()

    def restart(self):
        """After a kill, with the sockets that systemd keeps."""
        service = self.service
        kept = service.property("NFileDescriptorStore")
        self.row(f"it keeps a socket of each thread ({kept})", lambda: kept > 0 and kept == service.workers())
        service.must("kill", "-9", str(service.property("MainPID")))
        client = service.client()
        self.row("a client that connects after kill -9 waits for the next process", lambda: service.becomes("NRestarts", 1), lambda: served(client))
        self.row("started again after kill -9", lambda: service.becomes("ActiveState", "active"), service.must_live,
                 lambda: service.property("NFileDescriptorStore") == kept)
        service.write(more=SECOND_SERVICE)
        service.systemctl("reload", "handfast")
        more = service.property("NFileDescriptorStore")
        service.write()
        service.systemctl("reload", "handfast")
        refused = lambda: service.world.run("curl", "-sS", "--max-time", "5", "http://127.0.0.1:444/").returncode == CURL_REFUSED
        self.row("a reload has it keep more and fewer", lambda: more == 2 * kept, lambda: service.property("NFileDescriptorStore") == kept, refused)
        held = service.hold()
        service.systemctl("stop", "--no-block", "handfast")
        service.becomes("ActiveState", "deactivating")
        self.row("a stop refuses at once", lambda: service.becomes("NFileDescriptorStore", 0), lambda: not service.is_live())
        self.row("stop lets a connection end", lambda: lives_on(held), lambda: service.becomes("ActiveState", "inactive"),
                 lambda: service.property("Result") == "success")

    def options(self):
        """Settings that change what the unit has to allow."""
        service = self.service
        service.write((r"^\[process\]$", '[process]\nprivate-keys = "separate-process"'), ("^to = .*", 'to = "journald"'))
        self.row("private keys apart", lambda: service.systemctl("start", "handfast"), service.must_live,
                 lambda: "key-process" in service.systemctl("status", "handfast"))
        lines = lambda: service.must("handfast", "log", "-", input=service.journal("-t", "handfast-access"))
        self.row("access log in the journal", lambda: wait_until("a line of the service `web`", lambda: "web" in lines()))
        service.systemctl("stop", "handfast")
        service.write()

    def watchdog(self):
        service = self.service
        drop_in = service.world.root / "etc/systemd/system/handfast.service.d/short.conf"
        drop_in.parent.mkdir()
        drop_in.write_text("[Service]\nWatchdogSec=2s\nTimeoutAbortSec=1s\n")
        service.systemctl("daemon-reload")
        service.systemctl("start", "handfast")
        service.must("kill", "-STOP", str(service.property("MainPID")))
        self.row("watchdog starts it again", lambda: service.becomes("NRestarts", 1), lambda: service.becomes("ActiveState", "active"),
                 service.must_live)
        service.systemctl("stop", "handfast")
        # A link in the middle of a path is none of the folders that are watched: only the interval finds it, between the pings of the watchdog.
        tls = service.world.root / "srv/tls"
        for name in ("one", "two"):
            service.install(tls / name, name)
        (tls / "live").symlink_to("one")
        service.write(("/etc/handfast/([a-z]*.pem)", r"/srv/tls/live/\1"),
                      (r"^\[process\]$", '[process]\nwatch-interval = "2s"\nsandbox-folders = "/srv/tls"'))
        service.systemctl("start", "handfast")
        self.row("a certificate behind a link", lambda: service.serves("srv/tls/one/certificate.pem"))
        (tls / "next").symlink_to("two")
        (tls / "next").rename(tls / "live")
        self.row("a changed link is found beside a watchdog",
                 lambda: wait_until("the new certificate", lambda: service.serves("srv/tls/two/certificate.pem"), 5))
        service.systemctl("stop", "handfast")
        service.write()
        drop_in.unlink()
        service.systemctl("daemon-reload")

    def socket(self):
        service = self.service
        service.systemctl("start", "handfast.socket")
        self.row("socket activation", service.must_live)
        service.systemctl("kill", "-s", "KILL", "handfast")
        client = service.client()
        self.row("a client that connects after a kill -9 waits in the socket unit", lambda: service.becomes("NRestarts", 1), lambda: served(client))
        service.systemctl("stop", "handfast.socket", "handfast")
        wrong = [line for line in service.journal("-u", "handfast").splitlines() if FORBIDDEN.search(line)]
        self.rows.check("no sandbox refused anything", "\n".join(wrong))


def check(found, folder):
    program = tools.handfast(os.environ.get("PROGRAM"))
    world = World(folder, os.environ.get("ROOT", "/"))
    try:
        print(world.run("systemctl", "--version").stdout.splitlines()[0], flush=True)
        service = Service(world, folder, program)
        life = Life(found, service)
        for part in (life.start_and_reload, life.upgrade, life.restart, life.options, life.watchdog, life.socket):
            part()
        if found.failed:
            print(service.journal("-u", "handfast"), file=sys.stderr)
    finally:
        world.stop()


def main():
    return rows.main("systemd", check, PROGRAMS)
