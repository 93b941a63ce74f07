"""Rows of a check with programs of others: `ok`, `FAILED` or `skipped`, and the exit code of all of them.

In: names, commands, what must hold. Out: a line for each row on standard output.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from web import tools

from . import machine
from .machine import Failed, Process

# Debian packages of programs that are named otherwise.
PACKAGES = {
    "dovecot": "dovecot-imapd dovecot-pop3d dovecot-lmtpd", "psql": "postgresql-client", "setpriv": "util-linux",
    "ldapwhoami": "ldap-utils", "mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server", "mariadb": "mariadb-client",
    "gnutls-serv": "gnutls-bin", "stunnel": "stunnel4", "varnishd": "varnish", "systemctl": "systemd", "dbus-daemon": "dbus",
    "ip": "iproute2", "h2load": "nghttp2-client", "taskset": "util-linux", "unshare": "util-linux", "nsenter": "util-linux",
    "/usr/lib/nginx/modules/ngx_stream_module.so": "libnginx-mod-stream", "/usr/lib/postgresql/initdb": "postgresql",
}


def missing(programs):
    """The Debian packages of those programs and files that are not installed."""
    absent = [name for name in programs if not (Path(name).exists() if name.startswith("/") else tools.find(name))]
    return sorted({package for name in absent for package in PACKAGES.get(name, name).split()})


class Rows:
    """Prints rows and counts them."""

    def __init__(self):
        self.counts = Counter()

    @property
    def failed(self):
        """How many are neither ok nor skipped."""
        return self.counts.total() - self.counts["ok"] - self.counts["skipped"]

    def row(self, word, name, note=""):
        self.counts[word] += 1
        print(f"{word:<8} {name}{f': {note}' if note else ''}", flush=True)

    def check(self, name, problem):
        """`ok` without a problem."""
        self.row("FAILED" if problem else "ok", name, problem)

    def run(self, name, expected, words, fails=False, **environment):
        """Runs a command, whose output must have the expected text. `fails`: its exit code is not looked at. Deadline: 30 s."""
        try:
            done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=30, check=False, env={**os.environ, **environment})
            output, good = done.stdout.decode(errors="replace"), fails or done.returncode == 0
        except subprocess.TimeoutExpired as slow:
            output, good = f"{(slow.stdout or b'').decode(errors='replace')}not done after 30 s", False
        shown = "\n".join(output.splitlines()[:40])
        self.check(name, "" if good and expected in output else f"expected `{expected}`, received:\n{shown}")

    def group(self, name, programs, function):
        """Calls a function that makes rows, where its programs are installed. What it started is ended with it."""
        if packages := missing(programs):
            self.row("skipped", name, f"not installed: {', '.join(packages)}")
            return
        before = list(Process.started)
        try:
            function()
        except (Failed, OSError, subprocess.SubprocessError) as problem:
            self.row("FAILED", name, str(problem))
        finally:
            for process in [process for process in Process.started if process not in before]:
                process.stop()


def main(name, check, programs=("openssl",)):
    """Calls `check(rows, folder)` with a new folder, and ends all that it started. Exit code 0, 1 when a row failed, 2 when it cannot run."""
    os.environ["PATH"] += tools.SYSTEM
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    rows = Rows()
    with tempfile.TemporaryDirectory(prefix=f"handfast-{name}.", ignore_cleanup_errors=True) as folder:
        # Servers change their user.
        os.chmod(folder, 0o755)
        try:
            if packages := missing(programs):
                raise Failed(f"not installed: {', '.join(packages)}; hint: `scripts/install-missing package {' '.join(packages)}`")
            check(rows, Path(folder))
        except (Failed, OSError, subprocess.SubprocessError) as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            return 2
        finally:
            machine.stop_all()
    print(f"{rows.counts['ok']} ok, {rows.failed} failed, {rows.counts['skipped']} skipped")
    return 1 if rows.failed else 0
