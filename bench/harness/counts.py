"""What a transaction takes, counted: instructions, allocations, system calls. Counts hardly depend on who else uses the
machine, so they find a loss of a few per cent that no clock on a shared machine would show.

In: the program, bench/counts-baseline.json. Out: a table; exit code 1 when anything is worse than the baseline by more than
its tolerance. UPDATE=1 writes the baseline of that build anew. `make test` counts the build that it tests, PROFILE=debug.

Instructions are those of user space under valgrind, which hides AVX-512 from the program: the paths counted are those of
a processor with AVX2. Each figure is a difference between two runs of equal length, with few and with many connections,
so that start, stop and what happens once a second cancel out.
"""

import json
import os
import re
import shlex
import signal
import sys

from . import machine, works
from .generator import Load
from .machine import Failed
from .peers import BENCH

BASELINE = BENCH / "counts-baseline.json"
SECONDS = 5
# Connections a second, few and many: under valgrind a handshake takes some 10 ms.
FEW, MANY = 4, 20
ALLOCATORS = {"malloc", "calloc", "realloc", "memalign", "posix_memalign", "aligned_alloc"}
STEPS = {"transaction": [], "handshake": ["--handshake-only"], "resumed": ["-c", "8"]}
# Absolute differences that are no loss. A crowded machine adds half a system call: tickets wait 5 ms for company.
FLOOR = {"instructions": 500, "allocations": 0.1, "calls": 1}


def run(bench, prepare):
    """The exit code."""
    bench.book = Silent()
    prepare(bench.config, bench)
    found = {}
    for step, options in STEPS.items():
        print(f"counting: {step}", flush=True)
        load = lambda rate: Load("--rate", rate, "--arrivals", "fixed", *options, resumed=step == "resumed")
        few, many = (counted(bench, load(rate)) for rate in (FEW, MANY))
        connections = many["connections"] - few["connections"]
        for what in ("instructions", "allocations"):
            found[f"{step}, {what}"] = (many[what] - few[what]) / connections
    print("counting: system calls", flush=True)
    site = bench.fresh_site()
    try:
        peer = site.start("handfast")
        bench.generator.warm(peer, Load("-c", "4"), 0.3)
        load = Load("--rate", 40, "--arrivals", "fixed")
        found["transaction, calls, one at a time"] = works.traced_calls(bench, peer, load, 5)["calls"]
    finally:
        site.stop()
    return judge(bench.config.profile, found)


class Silent:
    """Counting has no book; what cannot be had is told."""

    voids = []

    def void(self, work, peer, why):
        if peer == "handfast":
            raise Failed(f"{work}: {why}")

    def note(self, text):
        pass


def counted(bench, load):
    """One run under callgrind: instructions, calls of the allocator, connections."""
    site = bench.fresh_site()
    out = site.folder / "callgrind.out"
    site.programs = site.programs | {"handfast": wrapper(site.folder, bench.programs["handfast"], out)}
    try:
        peer = site.start("handfast", cores={machine.PROXY_CORE, machine.LOAD_CORE})
        options = [*load.options, "-d", f"{SECONDS}s", "--timeout", "30s"]
        report = bench.generator.finish(bench.generator.begin(peer.port, options), SECONDS + 120)
        load.check(report)
        os.kill(peer.process.pid, signal.SIGTERM)
        peer.process.wait(60)
    finally:
        site.stop()
    if not out.exists():
        raise Failed(f"valgrind wrote nothing: {peer.process.said()}")
    return parse(out.read_text()) | {"connections": report["totals"]["connections"]}


def wrapper(folder, program, out):
    """A program that is the proxy under callgrind."""
    script = folder / "under-callgrind"
    words = [sys.executable, BENCH / "harness/under_callgrind.py", out, program]
    script.write_text(f"#!/bin/sh\nexec {shlex.join(map(str, words))} \"$@\"\n")
    script.chmod(0o755)
    return script


def parse(text):
    """Callgrind's file: the sum of all instructions, and calls of the allocator.

    Names are written once, `(12) malloc`, and then by their number alone.
    """
    names, callee, allocations, total = {}, "", 0, 0
    for line in text.splitlines():
        name = re.match(r"c?fn=\((\d+)\)(?: (.*))?$", line)
        if name:
            if name.group(2):
                names[name.group(1)] = name.group(2)
            if line.startswith("cfn"):
                callee = names.get(name.group(1), "")
        elif line.startswith("calls=") and callee.partition("@")[0] in ALLOCATORS:
            allocations += int(line[6:].split()[0])
        elif line.startswith(("totals:", "summary:")):
            total = max(total, int(line.split()[1]))
    if not total:
        raise Failed("read callgrind's file: it has no total")
    return {"instructions": total, "allocations": allocations}


def judge(profile, found):
    """Compares with the baseline of this build, or writes it."""
    baseline = json.loads(BASELINE.read_text())
    if os.environ.get("UPDATE") == "1":
        baseline["counts"][profile] = {name: round(value, 2) for name, value in found.items()}
        BASELINE.write_text(json.dumps(baseline, indent=2) + "\n")
        print(f"wrote {BASELINE.relative_to(BENCH.parent)}, {profile}:")
        for name, value in found.items():
            print(f"  {name:40} {value:14,.1f}")
        return 0
    expected = baseline["counts"].get(profile, {})
    worse = False
    print(f"{'':40} {'baseline':>14} {'now':>14}")
    for name, value in found.items():
        before = expected.get(name)
        if before is None:
            print(f"{name:40} {'none':>14} {value:14,.1f}  new; UPDATE=1 takes it in")
            worse = True
            continue
        floor = FLOOR[name.split(", ")[1]]
        more = value - before > max(before * baseline["tolerance"], floor)
        less = before - value > max(before * baseline["tolerance"], floor)
        worse |= more
        word = "  WORSE" if more else "  better; UPDATE=1 keeps it" if less else ""
        print(f"{name:40} {before:14,.1f} {value:14,.1f}{word}")
    gone = [name for name in expected if name not in found]
    if gone:
        print(f"not counted any more: {', '.join(gone)}")
    return 1 if worse or gone else 0
