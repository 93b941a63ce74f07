"""The proxy that is changed while it serves, and its two backends.

In: a folder. Out: a running Handfast whose configuration, certificate and process can be changed, and the lines of its access log.
"""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from harness import machine, peers
from harness.machine import Failed, Process, wait_until
from web import fronts, tools

# Longer than any request here takes; a tunnel does not end by itself.
DRAIN = 4


class Backend:
    """`client-backend` on a port that stays the same, over its deaths."""

    def __init__(self, folder):
        self.port, self.log = machine.free_port(), folder / "backend.log"
        self.start()

    def start(self):
        self.process, _ = tools.client_backend(self.log, port=self.port)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


class Subject(fronts.Handfast):
    """Handfast with two services over TLS, `web` and `other`, which have the same two backends."""

    SERVICE = """[[service]]
name = "{name}"
listen = "127.0.0.1:{port}"
backend = [{backends}]
certificate = "{certificate}"
mode = "http"
limits = {{ backend-retry = "1s" }}
[service.http]
response-timeout = "{timeout}s"
"""

    def __init__(self, folder):
        self.backends = [Backend(folder), Backend(folder)]
        self.pem = folder / "web.pem"
        self.renew(folder)
        super().__init__(folder, self.pem)
        self.web, self.other, self.admin = machine.free_port(), machine.free_port(), machine.free_port()
        self.services, self.timeout = ["web", "other"], 30
        self.config = self.folder / "front.conf"
        self.write()
        self.log.touch()
        self.process = Process(self.command(self.config), None, self.output, self.folder)
        self.pids = [self.process.pid]
        machine.wait_for_port(self.web, self.process)
        machine.wait_for_port(self.other, self.process)

    def configuration(self):
        text = (f'[process]\nthreads = 2\ndrain = "{DRAIN}s"\nupgrade-socket = "{self.folder}/upgrade.sock"\n'
                f'[admin]\nlisten = "127.0.0.1:{self.admin}"\n[access-log]\nto = "{self.log}"\n')
        backends = ", ".join(f'"127.0.0.1:{backend.port}"' for backend in self.backends)
        for name in self.services:
            port = self.web if name == "web" else self.other
            text += self.SERVICE.format(name=name, port=port, backends=backends, certificate=self.pem, timeout=self.timeout)
        return text

    def write(self):
        self.config.write_text(self.configuration())

    def ask(self, *words):
        """Runs a command of Handfast for this proxy; its output."""
        program = self.command(self.config)[0]
        done = subprocess.run([program, *words, "-c", str(self.config)], capture_output=True, text=True, timeout=90, check=False)
        if done.returncode:
            raise Failed(f"handfast {words[0]}: exit code {done.returncode}: {(done.stdout + done.stderr).strip()}")
        return done.stdout

    def reload(self):
        """Reads the configuration again, with another timeout: the services are made anew."""
        self.timeout += 1
        self.write()
        return self.ask("reload")

    def upgrade(self):
        """Another process; returns when it serves."""
        said = self.ask("upgrade")
        self.pids.append(int(said.partition("upgraded: process ")[2].split()[0]))
        return said

    def renew(self, folder):
        """Replaces the certificate's file by one with a new certificate, as a renewal does: by renaming."""
        made = peers.make_certificates(folder)["ecdsa"]
        fresh = self.pem.with_suffix(".new")
        shutil.copy(made, fresh)
        fresh.rename(self.pem)

    def ask_to_stop(self):
        os.kill(self.pids[-1], signal.SIGTERM)

    def has_ended(self):
        """Whether all its processes have."""
        self.process.process.poll()
        return not any(is_running(pid) for pid in self.pids)

    def stop(self):
        """Ends all of it; the log is complete then."""
        if is_running(self.pids[-1]):
            self.ask_to_stop()
        wait_until("the proxy to stop", self.has_ended, DRAIN + 20)
        super().stop()
        for backend in self.backends:
            backend.process.stop()

    def lines(self):
        """All lines of the log."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def is_running(pid):
    """Whether it is there, and not only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
