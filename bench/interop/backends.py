"""The program of scripts/interop-backends: servers with TLS behind the proxy, then Varnish as the reader of its PROXY headers."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from harness import echo, machine, rows
from harness.certificates import Authority
from harness.machine import Failed, Process
from harness.peers import fill
from harness.proxy import Proxy
from web import tools

from .carry import BULK, logged

SERVERS = Path(__file__).resolve().parent / "servers"
VERSIONS = ("TLSv1.2", "TLSv1.3")
S_SERVER = ["openssl", "s_server", "-accept", "127.0.0.1:@PORT@", "-@FLAG@", "-cert", "@CHAIN@", "-key", "@KEY@", "-CAfile", "@CA@", "-Verify", "2",
            "-verify_return_error", "-alpn", "mqtt"]


@dataclass
class Server:
    """A server with TLS that requires our certificate. `manner`: it echoes, or only takes bytes, or gives a file."""

    name: str
    words: list
    template: str = ""
    programs: list = field(default_factory=list)
    alpn: str = "mqtt"
    # Whether it ends with close_notify.
    ends_cleanly: bool = True
    manner: str = "echo"


BACKENDS = [
    Server("nginx", ["nginx", "-p", "@FOLDER@", "-c", "@CONFIG@", "-e", "stderr"], "nginx.conf",
           ["/usr/lib/nginx/modules/ngx_stream_module.so"], ends_cleanly=False),
    Server("haproxy", ["haproxy", "-db", "-f", "@CONFIG@"], "haproxy.cfg"),
    Server("stunnel", ["stunnel4", "@CONFIG@"], "stunnel.conf", alpn="-"),
    Server("hitch", ["hitch", "--config=@CONFIG@"], "hitch.conf"),
    # Its echo puts each line into a record by itself.
    Server("gnutls-serv", ["gnutls-serv", "--echo", "-p", "@PORT@", "--x509certfile", "@CHAIN@", "--x509keyfile", "@KEY@", "--x509cafile", "@CA@",
                           "--require-client-cert", "--verify-client-cert", "--alpn", "mqtt", "--priority", "NORMAL:-VERS-ALL:+VERS-TLS@NUMBER@"]),
    Server("s_server, take", [*S_SERVER, "-quiet"], manner="take"),
    Server("s_server, give", [*S_SERVER, "-WWW"], manner="give"),
]
# Handfast with plain clients.
TO_BACKEND = """[process]
threads = 1
[access-log]
to = "{log}"
[admin]
listen = "off"
[[service]]
name = "a"
listen = "127.0.0.1:{front}"
client-tls = false
backend = "127.0.0.1:{port}"
[service.backend-tls]
ca = "ca.crt"
name = "localhost"
certificate = "client.pem"
alpn = ["mqtt"]
missing-close-notify = "{close}"
"""
# Handfast with TLS clients that have a certificate, which sends a PROXY header.
TO_VARNISH = """[access-log]
to = "off"
[admin]
listen = "off"
[[service]]
name = "a"
listen = "127.0.0.1:{front}"
backend = "127.0.0.1:{port}"
certificate = "localhost.pem"
alpn = ["http/1.1"]
[service.client-certificates]
mode = "require"
ca = "ca.crt"
[service.proxy-protocol]
send = "v2"
client-certificate = "{sent}"
"""


class Place:
    """What the rows share."""

    def __init__(self, found, folder):
        self.rows, self.folder, self.program = found, folder, tools.handfast_argument()
        self.ca = Authority(folder)
        self.certificate, self.client = self.ca.issue("localhost", ["localhost"]), self.ca.issue("client", ["client"])
        (folder / "bulk").write_bytes(BULK)

    def start(self, server, version):
        """A running server, and its port."""
        port, echo_port = machine.free_port(), machine.free_port()
        template = (SERVERS / server.template).read_text() if server.template else ""
        if "@ECHO@" in template:
            echo.start(echo_port, self.folder / "echo.log")
        config = self.folder / (server.template or "no-configuration")
        number = version.removeprefix("TLSv")
        values = {"FOLDER": self.folder, "PORT": port, "ECHO": echo_port, "CONFIG": config, "VERSION": version, "NUMBER": number,
                  "FLAG": f"tls{number.replace('.', '_')}", "CHAIN": self.certificate.chain, "KEY": self.certificate.key,
                  "PEM": self.certificate.pem, "CA": self.ca.chain,
                  "HITCH_USER": 'user = "nobody"\ngroup = "nogroup"' if os.geteuid() == 0 else ""}
        config.write_text(fill(template, values))
        with open(self.folder / "taken", "wb") as taken:
            # s_server ends when its input does.
            process = Process([fill(word, values) for word in server.words], None, self.folder / "server.log", self.folder,
                              stdin=subprocess.PIPE, stdout=taken if server.manner == "take" else None)
        machine.wait_for_port(port, process)
        return port

    def carried(self, server, version):
        """One row: two connections through the proxy, the second one resumed."""
        port, front, log = self.start(server, version), machine.free_port(), self.folder / "access.log"
        log.write_text("")
        close = "abort" if server.ends_cleanly else "end"
        proxy = Proxy(self.program, self.folder, TO_BACKEND.format(log=log, front=front, port=port, close=close))
        for resumed in (False, True):
            line = logged(log, front, server.manner)
            expected = {"version": version, "alpn": server.alpn, "resumed": resumed, "cause": "finished"}
            found = {"alpn": "-", **line.get("backend_tls", {}), **line["reason"]}
            wrong = [f"{name} is {found.get(name)}, expected {value}" for name, value in expected.items() if found.get(name) != value]
            if wrong:
                raise Failed(f"{'second' if resumed else 'first'} connection: {', '.join(wrong)}: {line['reason']}")
        proxy.stop()
        if server.manner == "take" and (self.folder / "taken").read_bytes() != 2 * BULK:
            raise Failed(f"{(self.folder / 'taken').stat().st_size} bytes were taken, expected {2 * len(BULK)}, or others")
        end = "close_notify" if server.ends_cleanly else "FIN without close_notify"
        self.rows.row("ok", f"{server.name}, {version}", f"full, resumed, certificate, alpn {server.alpn}, 10 MB {server.manner}, end: {end}")

    def varnish(self):
        """Rows: what vmod_proxy, which knows more values than other readers, reads of our header."""
        # A whole certificate needs more than the usual workspace.
        words = ["varnishd", "-F", "-n", "@FOLDER@/varnish", "-a", "127.0.0.1:@PORT@,PROXY", "-f", "@CONFIG@", "-s", "default,16m", "-T", "none",
                 "-j", "none", "-p", "workspace_session=4k"]
        port = self.start(Server("varnish", words, "varnish.vcl"), "TLSv1.3")
        for sent in ("off", "cn", "der"):
            front = machine.free_port()
            proxy = Proxy(self.program, self.folder, TO_VARNISH.format(front=front, port=port, sent=sent))
            words = ["curl", "-sS", "-i", "--noproxy", "*", "--http1.1", "--max-time", "20", "--cacert", self.ca.chain, "--cert", self.client.pem,
                     f"https://localhost:{front}/"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
            proxy.stop()
            name = "" if sent == "off" else "client"
            wanted = ["alpn: http/1.1", "authority: localhost", "tls: true TLSv1.3 TLS_AES_", f"client: true 0 {name}", "key: EC256"]
            absent = [f"no `{text}`" for text in wanted if text not in done.stdout]
            problem = f"{', '.join(absent)} in\n{done.stdout}{done.stderr}" if absent else ""
            self.rows.check(f"varnish, client-certificate = {sent}: alpn, authority, version, cipher, key, verified, CN {name or '-'}", problem)


def check(found, folder):
    place = Place(found, folder)
    for version in VERSIONS:
        for server in BACKENDS:
            programs = [server.words[0], *server.programs]
            found.group(f"{server.name}, {version}", programs, lambda server=server, version=version: place.carried(server, version))
    found.group("varnish", ["varnishd", "gcc", "curl"], place.varnish)


def main():
    return rows.main("interop-backends", check)
