"""A recipe that is tried: its folder, the servers and Handfast that were started, the clients, and the rows of its checks.

In: rows, a folder, the section of the page. Out: answers of clients, lines of the access log.
"""

import contextlib
import functools
import json
import os
import random
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.certificates import Authority
from harness.machine import Failed, Process, tree, wait_for_port, wait_until
from harness.proxy import Proxy
from web import tools

from .page import Section, changed

HERE = Path(__file__).resolve().parent
# Longest time for one client; an upload of 2 GB through a debug program takes half of it.
CLIENT_SECONDS = 300


_given = set()


def free_port():
    """A port that nobody listens on, below those of outgoing connections: a server is started some time after this, and such a connection could have
    taken its port."""
    outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(max(outgoing - 10_000, 2_000), max(outgoing, 12_000))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


@dataclass
class Answer:
    """What curl received."""

    version: str
    status: int
    fields: dict
    content: bytes

    @property
    def text(self):
        return self.content.decode(errors="replace")


class Trial:
    """One recipe. Its certificates are `web.pem` and `ca.pem`, as on the pages, for `localhost`."""

    def __init__(self, rows, folder, page, heading):
        self.rows, self.folder, self.section = rows, folder, Section(page, heading)
        self.port, self.proxy, self.changes = None, None, {}
        folder.mkdir()
        # Servers change their user.
        folder.chmod(0o755)
        self.authority = Authority(folder)
        self.ca = folder / "ca.pem"
        self.ca.write_text(self.authority.chain.read_text())
        self.authority.issue("web", ["localhost"])

    def check(self, name, seen, expected=True):
        """A row: `ok` when both are equal."""
        self.rows.check(f"{self.folder.name}: {name}", "" if seen == expected else f"expected {expected!r}, received {seen!r}")

    def start(self, words, port, name=None, **more):
        """A server, which listens when this returns."""
        process = Process(words, None, self.folder / f"{name or Path(str(words[0])).name}.log", self.folder, **more)
        wait_for_port(port, process)
        return process

    def nginx(self, port, changes, number=0):
        """nginx with the `server` of the page, in the configuration of nginx.conf."""
        server = changed(self.section.name, self.section.block("nginx", number), changes)
        user = "user root;" if os.geteuid() == 0 else ""
        config = self.folder / f"nginx-{port}.conf"
        config.write_text((HERE / "nginx.conf").read_text().replace("USER", user).replace("FOLDER", str(self.folder)).replace("SERVER", server))
        return self.start([tools.find("nginx"), "-p", self.folder, "-e", "stderr", "-c", config], port)

    def node(self, port, script, *words):
        """A server or a client of this folder in JavaScript."""
        return self.start([tools.find("node"), HERE / script, port, *words], port, f"{script}-{port}")

    def handfast(self, changes, extra="", number=0):
        """Handfast with the configuration of the page; its first port of 443 is `port`. `extra`: what the trial adds at the end."""
        if self.proxy:
            self.proxy.stop()
        self.port, self.changes = free_port(), changes
        text = changed(self.section.name, self.section.block("toml", number), {"*:443": f"127.0.0.1:{self.port}", **changes})
        self.proxy = Proxy(tools.handfast(), self.folder, text + extra)

    def log(self, wanted=lambda line: True, count=1, seconds=10):
        """The lines of the access log that are wanted; waits until there are as many."""
        def found():
            # The line that is being written has no end yet.
            texts = self.proxy.process.log.read_text(errors="replace").rpartition("\n")[0].splitlines()
            lines = [json.loads(text) for text in texts if text.startswith('{"time"')]
            kept = [line for line in lines if wanted(line)]
            return kept if len(kept) >= count else None
        return wait_until(f"{count} lines in the access log", found, seconds, self.proxy.process)

    def memory_kib(self):
        """The largest resident memory of Handfast so far: the sum of VmHWM of its processes."""
        peaks = [Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0] for pid in tree(self.proxy.process.pid)]
        return sum(map(int, peaks))

    def url(self, path):
        return f"https://localhost{path}"

    @functools.cached_property
    def _curl(self):
        return [tools.find("curl"), "-sS", "--cacert", str(self.ca)]

    def curl_words(self, *words):
        """The command of a curl that verifies the certificate and finds `localhost` at Handfast's port."""
        return [*self._curl, "--connect-to", f"::127.0.0.1:{self.port}", *map(str, words)]

    def curl(self, path, *words, output=None, good=(0,)):
        """Requests a path. `output`: the file for the content, which is not read then; `good`: exit codes of curl that are no failure."""
        head, content = self.folder / "curl.head", Path(output or self.folder / "curl.content")
        for old in (head, content) if not output else (head,):
            old.unlink(missing_ok=True)
        shown = run(self.curl_words("-D", head, "-o", content, "-w", "%{http_version} %{http_code}", *words, self.url(path)), good=good)
        version, status = shown.split()[-2:]
        read = b"" if output or not content.exists() else content.read_bytes()
        return Answer(version, int(status), fields_of(head.read_text() if head.exists() else ""), read)

    def both(self, path, *words, **more):
        """The same request by HTTP/1.1 and by HTTP/2."""
        return {version: self.curl(path, f"--http{version}", *words, **more) for version in ("1.1", "2")}


@contextlib.contextmanager
def client(words, **more):
    """A client that runs beside the trial. It is ended at the end, also when it waits for a server that is no longer there."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()


def fields_of(text):
    """The fields of the last head that curl wrote, by name in lower case; those of one name joined."""
    last = text.replace("\r", "").strip().rpartition("\n\n")[2]
    fields = {}
    for line in last.splitlines()[1:]:
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip())
    return {name: ", ".join(values) for name, values in fields.items()}


def run(words, good=(0,), folder=None, joined=False, **environment):
    """The output of a command, with its errors if they are `joined`; Failed when its exit code is not a good one."""
    errors = subprocess.STDOUT if joined else subprocess.PIPE
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                          timeout=CLIENT_SECONDS, check=False, cwd=folder, env={**os.environ, **environment})
    if done.returncode not in good:
        raise Failed(f"run {Path(str(words[0])).name}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout
