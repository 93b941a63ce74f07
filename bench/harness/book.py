"""What is kept of a benchmark: setup.md, raw.jsonl (a line for each run), and what was not measured, with the reason.

In: figures as they come; written at once, so that an interrupted benchmark leaves what it had. Out: a folder.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from . import machine, peers

SYSCTLS = ["net/ipv4/ip_local_port_range", "net/ipv4/tcp_tw_reuse", "net/ipv4/tcp_max_tw_buckets", "net/core/somaxconn",
           "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem", "kernel/randomize_va_space", "vm/swappiness"]
VARIABLES = ["WORK", "PAIRS", "RUN_SECONDS", "QUIET", "PEERS"]


class Book:
    """One benchmark's folder."""

    def __init__(self, root, out):
        self.root, self.voids, self.results, self.notes, self.times = root, [], {}, [], {}
        base = Path(out) if out else root / "bench/runs" / f"{time.strftime('%Y-%m-%d', time.gmtime())}-{kind_of_machine()}"
        self.folder, number = base, 1
        while (self.folder / "raw.jsonl").exists():
            number += 1
            self.folder = base.with_name(f"{base.name}-{number}")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.raw = open(self.folder / "raw.jsonl", "x", encoding="utf-8")

    def _line(self, **what):
        self.raw.write(json.dumps(what) + "\n")
        self.raw.flush()

    def run(self, work, turn, row):
        self._line(work=work, turn=turn, **row)

    def result(self, work, found):
        self.results[work] = found

    def took(self, work, seconds):
        self.times[work] = seconds

    def note(self, text):
        self.notes.append(text)
        self._line(note=text)

    def void(self, work, peer, why):
        """No figure for that peer in that work: told at once, in the summary, and by the exit code."""
        self.voids.append((work, peer, why))
        self._line(work=work, peer=peer, void=why)
        print(f"  no figure for {peer} in {work}: {why}", file=sys.stderr, flush=True)

    def setup(self, bench):
        """What is needed to repeat it, and to judge it."""
        lines = ["# Setup", ""]
        command = " ".join(f"{name}={os.environ[name]}" for name in VARIABLES if os.environ.get(name))
        lines += rows([
            ("command", f"`make bench{' ' + command if command else ''}`"),
            ("date", time.strftime("%F %H:%M UTC", time.gmtime())),
            ("commit", commit(self.root)),
            ("CPU", f"{cpu()}, {os.cpu_count()} cores; proxy on {machine.PROXY_CORE}, generator and backend on "
                    f"{machine.LOAD_CORE}"),
            ("kernel", " ".join(os.uname()[index] for index in (0, 2, 4))),
            ("memory", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 30} GiB"),
            ("load average at the start", read("/proc/loadavg")),
            ("mitigations", mitigations()),
            ("transparent huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled")),
            ("pairs, seconds of a run", f"{bench.config.pairs}, {bench.config.seconds:g}"),
        ])
        lines += ["", "## Programs", "", "All on OpenSSL as Debian packages them, where it is not said otherwise.", ""]
        lines += rows((name, peers.version(name, bench.programs)) for name in ["handfast", *bench.config.peers])
        lines += rows([("openssl", first_line(["openssl", "version"])),
                       ("handfast, SHA-256", digest(bench.programs["handfast"]))], head=False)
        lines += ["", "## Configuration files, SHA-256", ""]
        lines += rows((f"`bench/peers/{path.relative_to(peers.TEMPLATES)}`", digest(path))
                  for path in sorted(peers.TEMPLATES.rglob("*")) if path.is_file())
        lines += ["", "## Sysctls", ""]
        lines += rows((name.replace("/", "."), read(f"/proc/sys/{name}")) for name in SYSCTLS)
        (self.folder / "setup.md").write_text("\n".join(lines) + "\n")


def rows(pairs, head=True):
    return (["| what | value |", "|---|---|"] if head else []) + [f"| {name} | {value} |" for name, value in pairs]


def read(path):
    try:
        return " ".join(Path(path).read_text().split())
    except OSError:
        return "not told"


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def first_line(words, folder=None):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False, cwd=folder)
    except OSError:
        return "not told"
    return (done.stdout.strip() or done.stderr.strip()).partition("\n")[0]


def commit(root):
    changed = first_line(["git", "status", "--porcelain"], root)
    return first_line(["git", "rev-parse", "--short=12", "HEAD"], root) + (" with changes on top" if changed else "")


def cpu():
    names = [line.split(": ", 1)[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else os.uname().machine


def kind_of_machine():
    virtual = "hypervisor" in Path("/proc/cpuinfo").read_text()
    return f"{os.cpu_count()}-core-{'vm' if virtual else 'machine'}"


def mitigations():
    folder = Path("/sys/devices/system/cpu/vulnerabilities")
    on = [path.name for path in sorted(folder.iterdir()) if "Mitigation" in path.read_text()] if folder.exists() else []
    return ", ".join(on) or "none told"
