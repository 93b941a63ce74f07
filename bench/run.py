#!/usr/bin/env python3
"""The benchmark: Handfast beside its peers, on this machine, in one command.

In: variables of the environment (WORK, PAIRS, RUN_SECONDS, PEERS, QUIET, OUT, BUILD, PROFILE; bench/README.md). Out: a folder in
bench/runs/ with setup.md, raw.jsonl, summary.md and a chart; progress on standard error; the summary on standard
output. Exit code 0: all was measured, and no goal was missed; 1: something could not be measured, or `counts` got
worse; 2: wrong use; 4: measured, and a goal was missed.

Only what it started is ended, and everything listens on loopback.
"""

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

from harness import counts, machine, peers, summary, works  # noqa: E402
from harness.book import Book  # noqa: E402
from harness.generator import Generator, Load  # noqa: E402
from harness.machine import Failed  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
TARGET = TARGET if TARGET.is_absolute() else ROOT / TARGET


class Config:
    """What the environment asks for."""

    def __init__(self, environment):
        self.work = [name for name in environment.get("WORK", "").replace(",", " ").split()]
        self.pairs = int(environment.get("PAIRS") or 7)
        self.seconds = float(environment.get("RUN_SECONDS") or 1.5)
        self.quiet = float(environment.get("QUIET") or 5)
        named = (environment.get("PEERS") or " ".join(name for name in peers.PEERS if name != "handfast"))
        self.peers = [] if named == "none" else named.replace(",", " ").split()
        self.out = environment.get("OUT")
        self.build = environment.get("BUILD", "1") != "0"
        self.profile = environment.get("PROFILE") or "release"
        if self.profile not in ("release", "debug"):
            raise ValueError("PROFILE of release, debug")
        unknown = [name for name in self.peers if name not in peers.PEERS or name == "handfast"]
        if unknown or self.pairs < 1 or not 0.3 <= self.seconds <= 600 or not 0 <= self.quiet <= 600:
            raise ValueError(f"PEERS of {', '.join(peers.PEERS)}, or none; PAIRS from 1; RUN_SECONDS 0.3 to 600; QUIET to 600")
        self.rivals = [name for name in self.peers if name in peers.RIVALS]


class Bench:
    """What all works share."""

    def __init__(self, config, folder):
        self.config, self.folder = config, folder
        self.programs = {
            "handfast": TARGET / config.profile / "handfast", "echo": TARGET / config.profile / "examples/echo",
            "benchmark": TARGET / config.profile / "examples/benchmark", "classes": folder,
        }
        self.sites, self.fresh, self.made = {}, 0, {}
        self.generator = Generator(self.programs["handfast"], folder, self.note)
        self.certificates, self.book = None, None

    def note(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)
        if self.book:
            self.book.note(text)

    def pairs(self, work):
        return work.pairs or self.config.pairs

    def rivals(self, java=False):
        return [name for name in self.config.peers if name in peers.RIVALS or java]

    def fresh_site(self):
        """Proxies for one work alone."""
        self.fresh += 1
        folder = self.folder / f"fresh-{self.fresh}"
        folder.mkdir()
        return peers.Site(folder, self.programs, self.certificates)

    def site(self, kind):
        """All proxies with a certificate of that kind, started and warm; they stay for later works."""
        if kind in self.sites:
            return self.sites[kind]
        for other in list(self.sites):
            self.sites.pop(other).stop()
        site = self.fresh_site()
        # Kept at once: what was started is stopped with it, also when the next one fails.
        self.sites[kind] = site
        rivals = [name for name in self.rivals(java=kind == "ecdsa") if name in peers.ONWARDS.get(kind, peers.PEERS)]
        for name in ["handfast", *rivals]:
            try:
                self.warm(site.start(name, kind))
            except Failed as problem:
                stopped = site.peers.pop(name, None)
                if stopped:
                    stopped.stop_all()
                if name == "handfast":
                    self.sites.pop(kind).stop()
                    raise
                self.book.void("start", name, str(problem))
        return site

    def warm(self, peer):
        seconds = works.JAVA_WARM if peer.name == "SSLProxy.java" else 1
        self.generator.warm(peer, Load("-c", "16"), min(seconds, 10 * self.config.seconds))

    def close_sites(self):
        for site in self.sites.values():
            site.stop()
        self.sites = {}

    def many_certificates(self, count):
        """A folder of so many certificates, made once."""
        if count not in self.made:
            folder = self.folder / f"certificates-{count}"
            subprocess.run([self.programs["benchmark"], "certificates", folder, str(count)], check=True, timeout=120)
            self.made[count] = folder
        return self.made[count]


def prepare(config, bench):
    """Peers, programs, certificates."""
    alone = config.work == ["counts"]
    subprocess.run([ROOT / "scripts/install-missing", "build", "count" if alone else "bench"], check=True)
    if config.build:
        print(f"building the {config.profile} program", file=sys.stderr, flush=True)
        cargo, words = os.environ.get("CARGO") or "cargo", ["--release"] if config.profile == "release" else []
        subprocess.run([cargo, "build", *words, "--locked", "--quiet", "-p", "handfast", "-p", "handfast-net", "--bin",
                        "handfast", "--example", "echo", "--example", "benchmark"], cwd=ROOT, check=True)
    missing = [str(path) for path in bench.programs.values() if not Path(path).exists()]
    if missing:
        raise Failed(f"not built: {', '.join(missing)}")
    bench.certificates = peers.make_certificates(bench.folder)
    if alone:
        return
    if "SSLProxy.java" in config.peers:
        try:
            subprocess.run(["javac", "-d", bench.folder, peers.TEMPLATES / "SSLProxy.java"], check=True, timeout=120)
        except (OSError, subprocess.CalledProcessError) as problem:
            bench.book.void("start", "SSLProxy.java", f"javac: {problem}")
            config.peers.remove("SSLProxy.java")
    for name in list(config.peers):
        if peers.version(name, bench.programs) is None:
            bench.book.void("start", name, "not installed")
            config.peers.remove(name)
            config.rivals = [other for other in config.rivals if other != name]


def measure(config, bench, chosen):
    """Every work, one after the other. One that fails has no figures, and the others go on."""
    for number, work in enumerate(chosen, 1):
        left = sum(other.seconds for other in chosen[number - 1 :])
        print(f"[{number:2}/{len(chosen)}] {work.name}: {work.what}; about {max(1, round(left / 60))} min left",
              file=sys.stderr, flush=True)
        if work.name in ("idle1k", "idle9k", "idle-reencrypt", "certificates", "limit"):
            bench.close_sites()
        begin = time.monotonic()
        try:
            work.run(bench, work)
        except (Failed, subprocess.SubprocessError, OSError, KeyError) as problem:
            bench.book.void(work.name, "handfast", f"{type(problem).__name__}: {problem}")
        bench.book.took(work.name, time.monotonic() - begin)


def choose(config):
    everything = works.standard_works(config)
    names = [work.name for work in everything]
    unknown = [name for name in config.work if name not in names]
    if unknown:
        raise ValueError(f"no work {', '.join(unknown)}; there are {', '.join(names)}, and counts by itself")
    # Without the A/A run nobody knows what a difference is worth.
    return [work for work in everything if not config.work or work.name in config.work or work.name == "a-a"]


def main():
    try:
        config = Config(os.environ)
        chosen = [] if config.work == ["counts"] else choose(config)
    except ValueError as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 2
    if machine.LOAD_CORE is None:
        print("bench: one core is not enough: the proxy needs one for itself", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    atexit.register(machine.stop_all)
    with tempfile.TemporaryDirectory(prefix="handfast-bench-") as folder:
        bench = Bench(config, Path(folder))
        try:
            if config.work == ["counts"]:
                return counts.run(bench, prepare)
            bench.book = Book(ROOT, config.out)
            prepare(config, bench)
            bench.book.setup(bench)
            try:
                measure(config, bench, chosen)
            finally:
                # Also after a fault of the harness: what was measured until then took minutes.
                missed = summary.write(bench, chosen)
        except (Failed, subprocess.SubprocessError) as problem:
            print(f"bench: {problem}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("bench: interrupted; raw.jsonl has what was measured", file=sys.stderr)
            return 1
        finally:
            machine.stop_all()
        print(f"bench: {bench.book.folder}", file=sys.stderr)
        return 1 if bench.book.voids else 4 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
