"""Runs stunnel's and hitch's own test suites with Handfast in the place of either program.

In: `scripts/other-suites --help`. Out: a row for each case: `ok`, `skipped` (by the suite), `FAILED` with the known reason, or none. Exit code 0
when only the known cases fail, 1 otherwise, 2 when it could not run.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import machine
from harness.machine import Failed
from harness.rows import Rows, missing
from web import tools

from . import sources
from .reasons import HITCH, STUNNEL

BENCH = Path(__file__).resolve().parent.parent
PROGRAMS = ("openssl", "curl", "unshare", "ip", "cc")
# Names that hitch's suite has as backends; here they are servers on this machine.
HOSTS = "127.0.0.1 localhost\n127.0.0.1 hitch-tls.org\n127.0.0.2 varnish-cache.org\n"
# An address that a test of hitch has.
ADDRESS = "fd22:5979:45f3:9471::1"
# A case that hangs is a failed case. The longest one takes 25 s with a debug build.
CASE_SECONDS = 60


class Suites:
    """The suites in a folder, and the rows of their cases."""

    def __init__(self, folder, rows):
        self.folder, self.rows = folder, rows
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}{tools.SYSTEM}", "PYTHONPATH": str(BENCH)}
        for name in ("stunnel", "hitch"):
            wrapper = self.bin / name
            wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m suites.as_{name} "$@"\n')
            wrapper.chmod(0o755)

    def result(self, name, word, reasons, output):
        """A row: `word` is ok, skipped or FAILED."""
        number = name.split()[0]
        reason = reasons.get(number, "")
        if word == "FAILED":
            self.rows.row("known" if reason else "FAILED", name, reason or f"new; see {output}")
        else:
            self.rows.row("changed" if reason and word == "ok" else word, name, f"expected to fail: {reason}" if reason and word == "ok" else "")

    def stunnel(self, source):
        """Each file of tests/plugins in a folder of its own, so that a case that hangs ends with its file."""
        tests = source / "tests"
        certificates = tests / "certs"
        python = python_with_cryptography(self.folder)
        subprocess.run(["sh", "./maketestcert.sh"], cwd=certificates, env={**self.environment, "LD_LIBRARY_PATH": ""}, capture_output=True,
                       timeout=120, check=False)
        if not (certificates / "server_cert.pem").exists():
            raise Failed("make the certificates of stunnel's suite: maketestcert.sh made none")
        for plugin in sorted((tests / "plugins").glob("p*.py")):
            self.plugin(plugin, tests, python)

    def plugin(self, plugin, tests, python):
        place = self.folder / plugin.stem
        (place / "plugins").mkdir(parents=True)
        shutil.copy(plugin, place / "plugins")
        # Copies: Python takes the folder of the file behind a link for that of the other files.
        for name in ("maketest.py", "plugin_collection.py", "reader.py", "error.py"):
            shutil.copy(tests / name, place)
        (place / "certs").symlink_to(tests / "certs")
        cases = re.findall(r"description = '(\d+)\. ([^\n]*)'\n", plugin.read_text())
        log = place / "output"
        words = [python, "-B", "maketest.py", "--debug=10", f"--program={self.bin / 'stunnel'}"]
        limited(words, place, self.environment, log, CASE_SECONDS * len(cases))
        summary = (place / "logs/summary.log").read_text() if (place / "logs/summary.log").exists() else ""
        for number, text in cases:
            found = re.search(rf"^{number}\..*?\.{{70}} (\w+)$", summary, re.MULTILINE | re.DOTALL)
            word = {"succeeded": "ok", "skipped": "skipped"}.get(found[1] if found else "", "FAILED")
            self.result(f"{number} stunnel: {text}".replace("\\", ""), word, STUNNEL, log)

    def hitch(self, source):
        """Each script of src/tests, with a backend for the names that it has."""
        tests = source / "src/tests"
        parser = source / "src/util/parse_proxy_v2.c"
        subprocess.run(["cc", "-I", source / "src", "-o", self.bin / "parse_proxy_v2", parser], check=True)
        environment = {**self.environment, "TESTDIR": f"{tests}/", "PATH": f"{tests}:{self.environment['PATH']}"}
        for script in sorted(tests.glob("test*.sh")):
            place = self.folder / script.stem
            place.mkdir()
            log = place / "output"
            # hitch's --test opens no socket; `handfast check` tries whether each address can be listened on. Only for that test: with a global
            # IPv6 address `localhost` is ::1 too, where Handfast does not listen for `[localhost]`.
            address = ADDRESS if ADDRESS in script.read_text() else None
            if address:
                subprocess.run(["ip", "addr", "add", f"{address}/128", "dev", "lo", "nodad"], check=True)
            code = limited(["sh", str(script)], tests, {**environment, "TMPDIR": str(place)}, log, CASE_SECONDS)
            if address:
                subprocess.run(["ip", "addr", "del", f"{address}/128", "dev", "lo"], check=True)
            number, text = script.stem.split("-", 1)
            self.result(f"{number} hitch: {text}", {0: "ok", 77: "skipped"}.get(code, "FAILED"), HITCH, log)


def limited(words, folder, environment, log, seconds):
    """Runs a command in a session of its own, whose processes end with it. Returns its exit code; None when it took too long."""
    process = machine.Process(["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *words], None, log, folder)
    try:
        return process.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.stop()


def python_with_cryptography(folder):
    """A Python that has the module that stunnel's suite imports."""
    has = [sys.executable, "-c", "import cryptography"]
    if subprocess.run(has, capture_output=True, check=False).returncode == 0:
        return sys.executable
    return str(folder / "venv/bin/python")


def prepare(folder, chosen):
    """Everything that needs the network: the sources, and Python's module."""
    found = {}
    for name in ("stunnel", "hitch"):
        place = getattr(chosen, name)
        if place == "no":
            continue
        if place:
            found[name] = folder / f"{name}-source"
            shutil.copytree(place, found[name], symlinks=True)
        else:
            try:
                found[name] = sources.source(name, folder)
            except Failed as problem:
                print(f"skipped  {name}'s suite: no source: {problem}; hint: --{name} FOLDER, or `no`", flush=True)
    if "stunnel" in found and python_with_cryptography(folder) != sys.executable:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([folder / "venv/bin/pip", "install", "--quiet", "cryptography"], check=True)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--stunnel", metavar="FOLDER", help="stunnel's source in place of Debian's newest source package; `no`: not this suite")
    arguments.add_argument("--hitch", metavar="FOLDER", help="the same for hitch")
    arguments.add_argument("--keep", metavar="FOLDER", help="keep the suites and what they wrote in this new folder")
    arguments.add_argument("program", nargs="?", help="Handfast (default: target/debug/handfast)")
    chosen = arguments.parse_args()
    if "HANDFAST_SUITES" in os.environ:
        return inside(Path(os.environ["HANDFAST_SUITES"]))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        if os.geteuid() != 0:
            raise Failed("not root: it needs namespaces for mounts and the network, and a user to serve as")
        if packages := missing(PROGRAMS):
            raise Failed(f"not installed: {', '.join(packages)}; hint: `scripts/install-missing package {' '.join(packages)}`")
        os.environ["HANDFAST"] = tools.handfast(chosen.program or tools.ROOT / "target/debug/handfast")
        with tempfile.TemporaryDirectory(prefix="handfast-suites.", ignore_cleanup_errors=True) as folder:
            folder = Path(chosen.keep or folder)
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
            found = prepare(folder, chosen)
            (folder / "hosts").write_text(HOSTS)
            # Not `exec`: the shell is the first process of the namespace, and waits for daemons that have ended.
            setup = 'ip link set lo up && mount --bind "$0/hosts" /etc/hosts && "$@"; exit $?'
            alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
            words = [*alone, "sh", "-c", setup, str(folder), sys.executable, *sys.argv]
            environment = {"HANDFAST_SUITES": str(folder), **{f"SOURCE_{name}": str(place) for name, place in found.items()}}
            os.environ.update(environment)
            process = machine.Process(words, None, folder / "errors", stdout=sys.stdout)
            code = process.process.wait()
            print((folder / "errors").read_text(), end="", file=sys.stderr)
            return code
    except (Failed, OSError, subprocess.SubprocessError) as problem:
        print(f"other-suites: {problem}", file=sys.stderr)
        return 2
    finally:
        machine.stop_all()


def inside(folder):
    """In the separate network, with the names of the suites' backends."""
    rows = Rows()
    suites = Suites(folder, rows)
    try:
        backend = machine.Process([sys.executable, BENCH / "suites/backend.py"], None, folder / "backend.log")
        machine.wait_for_port(80, backend)
        for name in ("stunnel", "hitch"):
            if source := os.environ.get(f"SOURCE_{name}"):
                getattr(suites, name)(Path(source))
    except (Failed, OSError, subprocess.SubprocessError) as problem:
        print(f"other-suites: {problem}", file=sys.stderr)
        return 2
    finally:
        machine.stop_all()
    counts = rows.counts
    if not counts:
        return 2
    print(f"{counts['ok'] + counts['changed']} ok, {counts['skipped']} skipped, {counts['known']} fail for a known reason, {counts['FAILED']} fail")
    return 1 if counts["FAILED"] or counts["changed"] else 0
