"""The proxies: how each is configured, started, and what it says it is.

In: a template from bench/peers/, a certificate. Out: a running proxy with a port and a backend's port of its own.
A new peer is one entry in PEERS and one template; bench/README.md says what to mind.
"""

import os
import re
import resource
import subprocess
import time
from pathlib import Path

from . import certificates, machine, metrics
from .machine import Failed, Process

BENCH = Path(__file__).resolve().parent.parent
TEMPLATES = BENCH / "peers"
PASSWORD = "benchmark"

# name → (template, command; @WORDS@ as in the templates, command that tells the version)
PEERS = {
    "handfast": ("handfast.toml", ["@HANDFAST@", "proxy", "-c", "@CONFIG@"], ["@HANDFAST@", "--version"]),
    "haproxy": ("haproxy.cfg", ["haproxy", "-db", "-q", "-f", "@CONFIG@"], ["haproxy", "-v"]),
    "nginx": ("nginx.conf", ["nginx", "-c", "@CONFIG@", "-p", "@FOLDER@"], ["nginx", "-v"]),
    "hitch": ("hitch.conf", ["hitch", "--config=@CONFIG@"], ["hitch", "--version"]),
    "stunnel": ("stunnel.conf", ["stunnel4", "@CONFIG@"], ["stunnel4", "-version"]),
    # -Xss: two threads a session need no 1 MiB of stack; -XX:+UseSerialGC is what the JVM itself picks on one core.
    "SSLProxy.java": (
        "SSLProxy.java",
        ["java", "-Xss256k", "-XX:+UseSerialGC", "-cp", "@CLASSES@", "SSLProxy", "@PORT@", "@PKCS12@", PASSWORD,
         "@BACKEND_HOST@", "@BACKEND_PORT@"],
        ["java", "-version"],
    ),
}
# Those whose ratio the goals are about; SSLProxy.java has a goal of its own.
RIVALS = ["haproxy", "nginx", "hitch", "stunnel"]
# Kinds in which TLS is spoken with the backend: who can do that. Templates are in a folder of that name.
ONWARDS = {name: ["haproxy", "nginx", "stunnel"] for name in ("reencrypt", "originate")}


class Peer:
    """One running proxy."""

    def __init__(self, name, process, port, label=None):
        self.name, self.process, self.port = name, process, port
        self.label = label or name
        # What stands around it on the load's core, the echo among them; and the one that ends the TLS of a proxy that speaks it
        # with its backend, with the port that tells how many sessions were resumed.
        self.around, self.behind = [], None

    def stop_all(self):
        self.stop()
        for process in self.around:
            process.stop()

    def members(self):
        if not self.process.running():
            raise Failed(f"{self.label} ended: {self.process.said()}")
        return machine.tree(self.process.pid)

    def stop(self):
        self.process.stop()


class Site:
    """A folder, an echo for each proxy, and the proxies that stand in front of it."""

    def __init__(self, folder, programs, certificates):
        self.folder, self.programs, self.certificates = Path(folder), programs, certificates
        self.peers = {}
        self.count = 0

    def echo(self, cores):
        """Starts a backend; its address."""
        log = self.folder / "echo.log"
        process = Process([self.programs["echo"], "127.0.0.1:0"], cores, log, stdout=subprocess.PIPE)
        address = process.process.stdout.readline().decode().strip()
        if not address:
            raise Failed(f"start the backend: {process.said()}")
        return process, address

    def terminator(self, folder, label, backend, cores):
        """Handfast, which ends TLS, in front of `backend`: the process, its port, its admin port."""
        port, admin = machine.free_port(), machine.free_port()
        values = {"PORT": port, "ADMIN": admin, "BACKEND": backend, "CERTIFICATE": self.certificates["ecdsa"]}
        config = folder / f"{label}.toml"
        config.write_text(fill((TEMPLATES / "terminate.toml").read_text(), values))
        process = Process([self.programs["handfast"], "proxy", "-c", config], cores, folder / f"{label}.log", folder)
        machine.wait_for_port(port, process)
        return process, port, admin

    def start(self, name, kind="ecdsa", label=None, cores=None, threads=1, certificate=None, more="", others=None):
        """Starts a proxy with a backend of its own and waits until it listens. `others` are the cores for those whom it talks
        to. Deadline: 30 s."""
        others = others or {machine.LOAD_CORE}
        self.count += 1
        folder = self.folder / f"{self.count:02}-{name}"
        folder.mkdir()
        backend, address = self.echo(others)
        around, behind, onwards = [backend], None, kind in ONWARDS
        if onwards:
            ended, ended_at, behind = self.terminator(folder, "behind", address, others)
            around.append(ended)
            address = f"127.0.0.1:{ended_at}"
        port = machine.free_port()
        host, backend_port = address.rsplit(":", 1)
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        template, command, _ = PEERS[name]
        key = self.certificates["ecdsa" if onwards else kind]
        values = {
            "CERTIFICATE": certificate or key, "PKCS12": key.with_suffix(".p12"), "CA": key.with_suffix(".crt"),
            "MIDDLE": machine.free_port(),
            "CONFIG": folder / template, "FOLDER": folder, "PORT": port, "BACKEND": address, "BACKEND_HOST": host,
            "BACKEND_PORT": backend_port, "THREADS": threads, "FILES": files, "MAXCONN": (files - 100) // 2,
            "HANDFAST": self.programs["handfast"], "CLASSES": self.programs["classes"],
            # hitch refuses to work as root.
            "HITCH_USER": 'user = "nobody"' if os.geteuid() == 0 else "",
        }
        (folder / template).write_text(fill((TEMPLATES / (kind if onwards else ".") / template).read_text(), values) + more)
        begin = time.monotonic_ns()
        process = Process([fill(word, values) for word in command], cores or {machine.PROXY_CORE}, folder / "log", folder)
        peer = Peer(name, process, port, label)
        peer.backend, peer.others, peer.folder, peer.config = backend, others, folder, folder / template
        peer.around, peer.behind = around, behind
        self.peers[peer.label] = peer
        machine.wait_for_port(port, process)
        peer.start_ns = time.monotonic_ns() - begin
        if kind == "originate":
            # The load speaks TLS: it is ended in front of the proxy too.
            front, peer.port, _ = self.terminator(folder, "front", f"127.0.0.1:{port}", others)
            peer.around.append(front)
        return peer

    def stop(self):
        for peer in self.peers.values():
            peer.stop_all()
        self.peers = {}


def resumed_behind(peer):
    """Full and resumed handshakes that the peer's backend has seen."""
    samples = metrics.read(peer.behind)
    resumed, all_of_them = (metrics.total(samples, "handfast_handshakes_total", label) for label in ('kind="resumed"', ""))
    return {"full": all_of_them - resumed, "resumed": resumed}


def fill(text, values):
    return re.sub("@([A-Z0-9_]+)@", lambda found: str(values[found.group(1)]), text)


def version(name, programs):
    """The line in which a program says what it is; None when it is not here."""
    words = [fill(word, {"HANDFAST": programs["handfast"]}) for word in PEERS[name][2]]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        return None
    lines = (said.stdout + said.stderr).strip().splitlines()
    wanted = [line for line in lines if re.search(r"version|\d+\.\d+", line)]
    return (wanted or lines or ["?"])[0].strip()


def make_certificates(folder):
    """Chains of one with their keys, ECDSA P-256 and RSA-2048, in PEM and PKCS#12: kind → PEM file."""
    made = {}
    for kind in ("ecdsa", "rsa"):
        found = certificates.self_signed(folder, kind, ("localhost", "garden.test"), kind)
        certificates.openssl("pkcs12", "-export", "-in", found.chain, "-inkey", found.key, "-out", found.pem.with_suffix(".p12"), "-passout",
                             f"pass:{PASSWORD}")
        made[kind] = found.pem
    return made
