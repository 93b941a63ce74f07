"""The program of scripts/interop-starttls: certificates, one Handfast with all its services, then the servers, one after the other."""

import json
import os
import sys
from pathlib import Path

from harness import machine, rows
from harness.certificates import Authority
from harness.machine import Failed, Process
from harness.peers import fill
from harness.proxy import Proxy
from web import tools

from . import databases, directory, mail

SERVERS = Path(__file__).resolve().parent / "servers"
PROTOCOLS = ("smtp", "imap", "pop3", "lmtp", "postgresql", "mysql", "ldap", "xmpp")
CERTIFICATE = 'certificate = "localhost.pem"\nstarttls = "{word}"\n'
BACKEND_TLS = 'backend-tls = {{ starttls = "{word}", ca = "ca.crt", name = "localhost" }}\n'
# The three ways: clients with TLS, the server without; plain clients, the server with TLS; TLS on both sides.
WAYS = {"front": CERTIFICATE, "plain": "client-tls = false\n" + BACKEND_TLS, "both": CERTIFICATE + BACKEND_TLS}
SERVICE = '[[service]]\nname = "{name}"\nlisten = "127.0.0.1:{port}"\nbackend = "{backend}"\n'
# PostgreSQL with TLS through a proxy on the way.
THROUGH = """client-tls = false
backend-tls = {{ starttls = "postgresql", ca = "ca.crt" }}
connect-through = {{ type = "{kind}", address = "127.0.0.1:{hop}", user = "bob", password-file = "password" }}
"""


class Place:
    """What the servers share: a folder, certificates, ports. `server`: where the server of a protocol must listen."""

    def __init__(self, found, folder):
        self.rows, self.folder, self.program = found, folder, tools.handfast_argument()
        self.authority = Authority(folder)
        self.certificate = self.authority.issue("localhost", ["localhost", "127.0.0.1"])
        self.ca = self.authority.chain
        self.server = {word: machine.free_port() for word in PROTOCOLS}
        self.through = {kind: machine.free_port() for kind in ("http", "socks5")}
        (folder / "password").write_text("secret\n")
        self.log, self.ports = folder / "access.log", {}
        self.proxy = Proxy(self.program, folder, self.configuration())

    def configuration(self):
        text = f'[access-log]\nto = "{self.log}"\n[admin]\nlisten = "off"\n'
        for word, port in self.server.items():
            for way, more in WAYS.items():
                text += self.service(way, word, f"127.0.0.1:{port}") + more.format(word=word)
        for kind, hop in self.through.items():
            text += self.service("through", kind, f"localhost:{self.server['postgresql']}") + THROUGH.format(kind=kind, hop=hop)
        return text

    def service(self, way, word, backend):
        port = self.ports[way, word] = machine.free_port()
        return SERVICE.format(name=f"{way}-{word}", port=port, backend=backend)

    def port(self, way, word):
        """Where Handfast listens."""
        return self.ports[way, word]

    def write(self, folder, template, **more):
        """A server's configuration from its template."""
        values = {"FOLDER": folder, "CHAIN": self.certificate.chain, "KEY": self.certificate.key, "PEM": self.certificate.pem, **more}
        made = folder / template
        made.write_text(fill((SERVERS / template).read_text(), values))
        return made

    def own_folder(self, name):
        made = self.folder / name
        made.mkdir()
        return made

    def start(self, words, *ports):
        """Starts a server and waits until it listens."""
        process = Process(words, None, self.folder / f"{Path(words[0]).name}.out", self.folder)
        for port in ports:
            machine.wait_for_port(port, process)
        return process

    def probed(self, name, word):
        """A row: `probe` finds its way to TLS, and verifies the certificate."""
        words = [self.program, "probe", "--ca", self.ca, "--runs", "3", "--starttls", word, f"localhost:{self.server[word]}"]
        self.rows.run(f"{name}, probe {word}", f"STARTTLS of {word}", words)

    def unprotected(self):
        """The services that must use TLS with their server and that have a connection without it."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return sorted({line["service"] for line in lines if not line["service"].startswith("front-") and not line.get("backend_tls")})


def check(found, folder):
    if os.geteuid():
        raise Failed("needs root, as the servers change their user")
    place = Place(found, folder)
    for module in (mail, databases, directory):
        for name, programs, function in module.GROUPS:
            found.group(name, programs, lambda function=function: function(place))
    # When it has ended, its log is complete.
    place.proxy.stop()
    without = place.unprotected()
    found.check("each connection to a server that is asked for TLS has it", without and f"not of {', '.join(without)}")
    if found.failed:
        print(place.proxy.process.log.read_text(), *place.log.read_text().splitlines()[-20:], sep="\n", file=sys.stderr)


def main():
    return rows.main("interop-starttls", check)
