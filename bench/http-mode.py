#!/usr/bin/env python3
"""The benchmark of HTTP mode: CPU time of the proxy for each request, beside HAProxy, nginx and our own TCP mode.

In: `bench/http-mode.py --help`; the program of Handfast is $HANDFAST (default target/release/handfast), another HAProxy or nginx is $HAPROXY, $NGINX.
Out: a table, a folder in bench/runs (raw.jsonl, http.json, summary.md); exit code 0 when everything was measured, 1 when something has no figure, 2
when it could not run. How it measures: harness/http_window.py.

It is not named http.py: that would hide the standard library's `http` from every program in this folder.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from web import tools  # noqa: E402

tools.enter_venv()

from harness import book, http_window, http_works, machine, pairs, peers  # noqa: E402
from harness.machine import Failed  # noqa: E402

ALL = [*http_works.WINDOWS, "calls", "W7", "W8"]


class Bench:
    """The options, the backend, and what was measured."""

    def __init__(self, options, folder, out):
        self.folder, self.out, self.voids = folder, out, []
        self.base, self.labels = options.base, [options.base, *(peer for peer in options.peers.split(",") if peer and peer != options.base)]
        self.pairs, self.seconds = (2, 1.0) if options.quick else (options.pairs, options.seconds)
        self.idle, self.tunnels, self.quiet = (200, 50, 1) if options.quick else (9000, 1000, 5)
        self.certificate = peers.make_certificates(folder)["ecdsa"]
        self.backend = http_window.Backend(folder / "backend", "user root;\n" if os.geteuid() == 0 else "")
        out.mkdir(parents=True, exist_ok=True)
        self.raw = open(out / "raw.jsonl", "w", encoding="utf-8")

    def keep(self, work, turn, row):
        self.raw.write(json.dumps({"work": work, "turn": turn, **row}) + "\n")
        self.raw.flush()


def spread(values):
    return dict(zip(("median", "least", "greatest"), pairs.spread(values)), runs=len(values)) if values else None


def run_work(bench, name):
    """The figures of one work: {contestant: {...}}."""
    if name in http_works.WINDOWS:
        rows, ratios = http_works.window_work(bench, name)
        return {label: {"cpu_us": spread([row["cpu_us"] for row in found]), "ratio": spread(ratios.get(label, []))} for label, found in rows.items()}
    found = {}
    for label in bench.labels:
        tcp = label.endswith("-tcp")
        if name == "calls":
            found[label] = {"calls": http_works.system_calls(bench, label)}
        elif name == "W7":
            versions = ("h1",) if tcp else ("h1", "h2")
            found[label] = {f"{version} KiB": http_works.idle(bench, label, version, bench.idle) for version in versions}
        else:
            found[label] = {"cpu_us a message": http_works.tunnels(bench, label, bench.tunnels, 5 if bench.tunnels < 100 else 20)}
        bench.keep(name, 0, {"front": label, **found[label]})
    return found


def table(results, base):
    """Markdown lines."""
    lines = [f"| work | proxy | figure | median | least | greatest | ratio to {base}, median (least to greatest) |", "|---|---|---|---|---|---|---|"]
    for work, found in results.items():
        for label, figures in found.items():
            for name, value in figures.items():
                if name == "ratio" or value is None:
                    continue
                ratio = figures.get("ratio")
                beside = f"{ratio['median']:.3f} ({ratio['least']:.3f} to {ratio['greatest']:.3f})" if ratio else ""
                row = value if isinstance(value, dict) else {"median": value, "least": value, "greatest": value}
                lines.append(f"| {work} | {label} | {name} | {row['median']:.2f} | {row['least']:.2f} | {row['greatest']:.2f} | {beside} |")
    return lines


def conclude(bench, results, began):
    """Writes the folder; exit code."""
    setup = {"date": began, "commit": book.commit(tools.ROOT), "cpu": book.cpu(), "kernel": os.uname().release, "pairs": bench.pairs,
             "seconds": bench.seconds, "base": bench.base, "contestants": {label: version(label) for label in bench.labels}}
    (bench.out / "http.json").write_text(json.dumps({"setup": setup, "results": results, "void": bench.voids}, indent=1) + "\n")
    lines = table(results, bench.base)
    head = ["# HTTP mode beside its peers", "", *(f"- {name}: {value}" for name, value in setup.items()), ""]
    notes = [f"- no figure: {void}" for void in bench.voids]
    (bench.out / "summary.md").write_text("\n".join([*head, *lines, *notes]) + "\n")
    print("\n".join([*lines, *notes, f"\nwritten to {bench.out}"]))
    return 1 if bench.voids else 0


def version(label):
    kind, _, mode = label.partition("-")
    find = tools.newest if mode == "newest" else tools.find
    program = tools.handfast() if kind == "handfast" else find(kind)
    return book.first_line([program, "--version" if kind == "handfast" else "-v"])


def main():
    parser = argparse.ArgumentParser(prog="bench/http-mode.py", description=__doc__.split("\n")[0])
    parser.add_argument("--works", default=",".join(ALL), help=f"default: {','.join(ALL)}")
    parser.add_argument("--base", default="handfast", help="the contestant that each other one is compared with")
    parser.add_argument("--peers", default="haproxy,nginx,handfast-tcp", help="with commas; -tcp is the TCP mode of a front, -newest the program of Debian's newest suite (scripts/newest-peers)")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a window")
    parser.add_argument("--quick", action="store_true", help="2 pairs of 1 s and few connections: shows that it works, gives no figures")
    parser.add_argument("--out", type=Path, help="default: bench/runs/DATE-MACHINE-http, with --quick target/http-mode")
    options = parser.parse_args()
    began = time.strftime("%F %H:%M UTC", time.gmtime())
    out = options.out or (tools.TOOLS.parent / "http-mode" if options.quick else
                          tools.ROOT / "bench/runs" / f"{began[:10]}-{book.kind_of_machine()}-http")
    results = {}
    with tempfile.TemporaryDirectory(prefix="handfast-http.", ignore_cleanup_errors=True) as folder:
        try:
            bench = Bench(options, Path(folder), out)
            for name in options.works.split(","):
                if name not in ALL:
                    raise Failed(f"unknown work {name}: expected {', '.join(ALL)}")
                print(f"{name} …", file=sys.stderr, flush=True)
                try:
                    results[name] = run_work(bench, name)
                except (Failed, ConnectionError) as problem:
                    bench.voids.append(f"{name}: {problem}")
                    print(f"  no figure: {problem}", file=sys.stderr)
        except (Failed, OSError) as problem:
            print(f"http-mode: {problem}", file=sys.stderr)
            return 2
        finally:
            machine.stop_all()
    return conclude(bench, results, began)


sys.exit(main())
