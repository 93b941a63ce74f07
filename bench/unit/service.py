"""Handfast as a service in a world: its unit, its configuration, and what is asked of both."""

import re
import shutil
import ssl
import subprocess

from harness.certificates import self_signed
from harness.machine import Failed, Process, wait_until
from web import tools

PACKAGING = tools.ROOT / "packaging"
NEW_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)
ADMIN = "127.0.0.1:7643"
REQUEST = f"GET /live HTTP/1.1\r\nHost: {ADMIN}\r\nConnection: close\r\n\r\n".encode()


class Service:
    """`good` is the text of the configuration that is packaged; its backend is the admin page."""

    def __init__(self, world, folder, program):
        self.world, self.folder, root = world, folder, world.root
        units = root / "etc/systemd/system"
        for source, target, mode in (
            (program, root / "usr/bin/handfast", 0o755), (PACKAGING / "handfast.service", units / "handfast.service", 0o644),
            (PACKAGING / "handfast.socket", units / "handfast.socket", 0o644), (PACKAGING / "debian/postinst", root / "postinst", 0o755),
            (PACKAGING / "debian/sysusers.conf", root / "usr/lib/sysusers.d/handfast.conf", 0o644),
        ):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(mode)
        self.must("systemd-sysusers", "handfast.conf")
        self.must("systemctl", "daemon-reload")
        self.config = root / "etc/handfast/handfast.toml"
        self.install(self.config.parent, "first")
        self.good = (PACKAGING / "handfast.toml").read_text().replace("127.0.0.1:8080", ADMIN)
        self.write()

    def install(self, folder, stem):
        """A new certificate in a folder of the world, for the service's user."""
        made = self_signed(self.folder, stem)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made.chain, folder / "certificate.pem")
        shutil.copyfile(made.key, folder / "key.pem")
        (folder / "key.pem").chmod(0o600)
        self.must("chown", "handfast", f"/{(folder / 'key.pem').relative_to(self.world.root)}")

    def write(self, *changes, more=""):
        """Writes the good configuration with (pattern, replacement), and more text."""
        text = self.good
        for pattern, replacement in changes:
            text = re.sub(f"(?m){pattern}", replacement, text)
        self.config.write_text(text + more)

    def must(self, *words, **more):
        """Runs a command in the world, which must succeed; its output."""
        done = self.world.run(*words, **more)
        if done.returncode:
            raise Failed(f"{' '.join(words)}: exit code {done.returncode}: {(done.stdout + done.stderr).strip()}")
        return done.stdout

    def systemctl(self, *words):
        return self.must("systemctl", *words)

    def property(self, name):
        """A property of the unit; numbers as numbers."""
        value = self.systemctl("show", "handfast", "-p", name, "--value").strip()
        return int(value) if value.isdigit() else value

    def becomes(self, name, value):
        """Waits for a property. Deadline: 20 s."""
        wait_until(f"{name} {value}", lambda: self.property(name) == value, pause=0.1)

    def other_process(self, old):
        wait_until("another main process", lambda: self.property("MainPID") != old, pause=0.1)

    def curl(self):
        return self.world.command("curl", "-sS", "--max-time", "15", "--cacert", "/etc/handfast/certificate.pem", "https://localhost/live", "-H",
                                  f"Host: {ADMIN}")

    def is_live(self):
        """Whether a new client is served."""
        return subprocess.run(self.curl(), capture_output=True, text=True, timeout=30, check=False).stdout.strip() == "alive"

    def must_live(self):
        if not self.is_live():
            raise Failed("a new client is not served")

    def client(self):
        """A client that is not waited for: `served` waits."""
        return subprocess.Popen(self.curl(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def hold(self):
        """A connection that has not sent its request yet."""
        words = self.world.command("openssl", "s_client", "-brief", "-connect", "localhost:443")
        held = Process(words, None, self.folder / f"held-{self.property('MainPID')}.log", stdin=subprocess.PIPE)
        held.wait_for("CONNECTION", 20)
        return held

    def served_certificate(self):
        text = self.world.run("openssl", "s_client", "-connect", "localhost:443", stdin=subprocess.DEVNULL).stdout
        found = NEW_CERTIFICATE.search(text)
        return found and ssl.PEM_cert_to_DER_cert(found[0])

    def serves(self, path):
        """Whether the certificate in that file of the world is served."""
        return self.served_certificate() == ssl.PEM_cert_to_DER_cert((self.world.root / path).read_text())

    def workers(self):
        """The number of worker threads of the main process."""
        names = [path.read_text() for path in (self.world.root / "proc" / str(self.property("MainPID")) / "task").glob("*/comm")]
        return sum(name.startswith("worker-") for name in names)

    def journal(self, *words):
        return self.must("journalctl", *words, "--no-pager", "-o", "cat")


def lives_on(held):
    """Sends the request of a held connection, which must be answered."""
    held.process.stdin.write(REQUEST)
    held.process.stdin.flush()
    held.wait_for("alive", 20)
    held.stop()


def served(client):
    out, err = client.communicate(timeout=30)
    if out.strip() != "alive":
        raise Failed(f"the client received {out!r}: {err.strip()}")
