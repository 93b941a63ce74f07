"""The program of scripts/interop-ends: one Handfast with all its services, then the servers and their clients, one after the other."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from harness import machine, rows
from harness.certificates import Authority
from harness.machine import Failed, Process, wait_until
from harness.proxy import Proxy
from web import tools

from . import end_messages, end_shells, end_stores

CLIENTS = Path(__file__).resolve().parent / "end_clients.py"
# Protocols, and the ones in which TLS is requested.
STARTTLS = {"postgresql": "postgresql", "mysql": "mysql"}
# Lines of a service beside the usual ones.
MORE = {
    **{word: f'starttls = "{starttls}"\n' for word, starttls in STARTTLS.items()},
    "git-http": 'mode = "http"\n',
    # ssh ends its ProxyCommand with a signal, and SSH has a message for its end, which is encrypted.
    "ssh": 'missing-close-notify = "end"\n',
    "mqtt-proxied": 'proxy-protocol = { send = "v2" }\n',
}
PROTOCOLS = ("mqtt", "amqp", "kafka", "syslog", "imap", "smtp", "ldap", "git", "rsync", "dns", *MORE)
SERVICE = """[[service]]
name = "{name}"
listen = "127.0.0.1:{port}"
backend = "127.0.0.1:{backend}"
certificate = "localhost.pem"
versions = ["{version}"]
"""
# The exit code of end_clients.py where the client's package is missing.
NOT_INSTALLED = 3


class NotInstalled(Exception):
    """A client's package is missing."""


class Place:
    """What the servers share: a folder, certificates, ports. `plain` and `tls`: where the server of a protocol must listen."""

    def __init__(self, found, folder):
        self.rows, self.folder = found, folder
        self.authority = Authority(folder)
        self.certificate = self.authority.issue("localhost", ["localhost", "127.0.0.1"])
        self.ca = self.authority.chain
        for path in (self.certificate.key, self.certificate.pem):
            path.chmod(0o644)
        self.plain = {word: machine.free_port() for word in PROTOCOLS}
        self.tls = {word: self.plain[word] if word in STARTTLS else machine.free_port() for word in PROTOCOLS}
        self.plain["git-http"] = self.plain["git"]
        if tools.find("kcat"):
            self.plain["kafka"] = end_messages.mock_cluster(folder)
        self.log, self.ports, self.marks = folder / "access.log", {}, 0
        self.proxy = Proxy(tools.handfast_argument(), folder, self.configuration())

    def configuration(self):
        text = f'[access-log]\nto = "{self.log}"\n[admin]\nlisten = "off"\n'
        for word in PROTOCOLS:
            starttls = f', starttls = "{STARTTLS[word]}"' if word in STARTTLS else ""
            for way, servers in (("front", self.plain), ("both", self.tls)):
                for version in ("1.2", "1.3"):
                    port = self.ports[word, way, version] = machine.free_port()
                    name = f"{word}-{way}-{version}"
                    text += SERVICE.format(name=name, port=port, backend=servers[word], version=version) + MORE.get(word, "")
                    if way == "both":
                        text += f'backend-tls = {{ ca = "ca.crt", name = "localhost"{starttls} }}\n'
        return text

    def own_folder(self, name):
        made = self.folder / name
        made.mkdir()
        return made

    def start(self, words, *ports, output=None):
        """Starts a server and waits until it listens; the file with its output."""
        process = Process(words, None, output or self.folder / f"{Path(words[0]).name}.out", self.folder)
        for port in ports:
            machine.wait_for_port(port, process)
        return process.log

    def python(self, client):
        """The command of a client in end_clients.py."""
        return lambda port, mark: [sys.executable, CLIENTS, client, port, self.ca, mark, end_messages.MESSAGES]

    def lines(self, service):
        """The closed sessions of a service."""
        if not self.log.exists():
            return []
        found = [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in found if line["service"] == service]

    def sessions(self, word, name, command, arrived=lambda mark: "", ends=True, ways=("front", "both"), times=5):
        """Rows: a client against each way and version. `command`: its words for a port and a mark. `arrived`: what is missing on the server.
        `ends`: the protocol ends the session, so it must be no failure. `times`: ends race with answers, so each client has several sessions."""
        for way in ways:
            for version in ("1.2", "1.3"):
                row = f"{name}, {'TLS to the server too, ' if way == 'both' else ''}TLS {version}"
                self.row(row, f"{word}-{way}-{version}", self.ports[word, way, version], (command, arrived, ends, times))

    def row(self, row, service, port, session):
        command, arrived, ends, times = session
        logged, problems = Counter(), []
        try:
            for _ in range(times):
                self.marks += 1
                mark = f"m{self.marks}-"
                reasons = self.session(service, command(port, mark))
                logged.update(f"{reason['cause']} ({reason['side']}){f', {detail}' if (detail := reason.get('detail')) else ''}" for reason in reasons)
                problems.append(arrived(mark))
                problems += [f"a failure in the log: {reason['cause']}" for reason in reasons if ends and reason.get("failed")]
        except NotInstalled as package:
            self.rows.row("skipped", row, str(package))
            return
        except (Failed, subprocess.SubprocessError) as problem:
            problems.append(str(problem))
        found = "; ".join(dict.fromkeys(filter(None, problems)))
        kinds = "; ".join(f"{count} x {kind}" for kind, count in logged.items())
        self.rows.row("FAILED" if found else "ok", row, f"{found}; the log: {kinds}" if found else kinds)

    def session(self, service, words):
        """Runs a client: the reasons of the session's lines in the access log."""
        before = len(self.lines(service))
        done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=30, check=False, env={**os.environ, "LDAPTLS_CACERT": str(self.ca)})
        output = done.stdout.decode(errors="replace").strip()
        if done.returncode == NOT_INSTALLED:
            raise NotInstalled(output)
        lines = wait_until("the session's end in the access log", lambda: self.lines(service)[before:], 15)
        if done.returncode:
            raise Failed(f"the client: {done.returncode}, {output[-300:]}; the log: {[line.get('reason') for line in lines]}")
        # Lines of requests have one only where they failed.
        return [line["reason"] for line in lines if "reason" in line]


def check(found, folder):
    if os.geteuid():
        raise Failed("needs root, as the servers change their user")
    place = Place(found, folder)
    for module in (end_messages, end_stores, end_shells):
        for name, programs, function in module.GROUPS:
            found.group(name, programs, lambda function=function: function(place))


def main():
    return rows.main("interop-ends", check)
