"""The program of scripts/cache-bench: caches beside Handfast, tables, a folder in bench/runs."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from harness import book, machine, pairs, peers, rows
from harness.machine import Failed, Stolen
from web import tools

from . import hits
from .fronts import FRONTS, PROGRAMS, VERSIONS

EVICTION = "eviction"


def main():
    parser = argparse.ArgumentParser(prog="scripts/cache-bench", description="CPU time of a hit, and p99 of hits while objects are evicted.")
    parser.add_argument("--works", default=";".join([*hits.WORKS, EVICTION]), help=f"with semicolons; default: {'; '.join([*hits.WORKS, EVICTION])}")
    parser.add_argument("--peers", default="nginx,varnish", help="with commas; those that are not installed are left out, and named")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="one pair: shows that it works, gives no figures")
    parser.add_argument("--out", type=Path, help="default: bench/runs/DATE-MACHINE-cache, with --quick target/cache-bench")
    options = parser.parse_args()
    options.pairs = 1 if options.quick else options.pairs
    began = time.strftime("%F %H:%M UTC", time.gmtime())
    out = options.out or (tools.TOOLS.parent / "cache-bench" if options.quick else
                          tools.ROOT / "bench/runs" / f"{began[:10]}-{book.kind_of_machine()}-cache")
    os.environ["PATH"] += tools.SYSTEM
    with tempfile.TemporaryDirectory(prefix="handfast-cache-bench.", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        try:
            return Bench(options, Path(folder), out, began).run()
        except (Failed, OSError) as problem:
            print(f"cache-bench: {problem}", file=sys.stderr)
            return 2
        finally:
            machine.stop_all()


class Bench:
    """The options, the origin, and what was measured."""

    def __init__(self, options, folder, out, began):
        self.options, self.folder, self.out, self.began, self.voids = options, folder, out, began, []
        wanted = [name for name in options.peers.split(",") if name]
        if unknown := [name for name in wanted if name not in FRONTS]:
            raise Failed(f"unknown cache {', '.join(unknown)}: expected {', '.join(FRONTS)}")
        absent = {name: rows.missing([*PROGRAMS[name], "h2load"]) for name in wanted}
        self.voids += [f"{name}: not installed: {', '.join(packages)}" for name, packages in absent.items() if packages]
        self.peers = [name for name in wanted if not absent[name]]
        self.certificate, self.origin = peers.make_certificates(folder)["ecdsa"], hits.Origin(folder / "origin")
        out.mkdir(parents=True, exist_ok=True)
        self.raw = open(out / "raw.jsonl", "w", encoding="utf-8")

    def run(self):
        results = {}
        for work in self.options.works.split(";"):
            work = work.strip()
            print(f"{work} …", file=sys.stderr, flush=True)
            try:
                results[work] = self.evict() if work == EVICTION else self.compare(work)
            except Failed as problem:
                self.voids.append(f"{work}: {problem}")
                print(f"  no figure: {problem}", file=sys.stderr)
        return self.conclude(results)

    def keep(self, work, turn, row):
        self.raw.write(json.dumps({"work": work, "turn": turn, **row}) + "\n")
        self.raw.flush()

    def compare(self, work):
        """A B B A over all caches: {cache: figures}."""
        if work not in hits.WORKS:
            raise Failed(f"unknown work: expected {', '.join([*hits.WORKS, EVICTION])}")
        running = {}
        try:
            for name in ("handfast", *self.peers):
                running[name] = hits.start(FRONTS[name], self.folder / f"{time.monotonic_ns()}", self.certificate, self.origin)
            found, ratios = {name: [] for name in running}, {name: [] for name in self.peers}
            for turn in range(self.options.pairs):
                self.one_round(work, turn, running, (found, ratios))
        finally:
            for front in running.values():
                front.stop()
        return {name: {"cpu_us": spread([row["cpu_us"] for row in seen]), "ratio": spread(ratios.get(name))} for name, seen in found.items()}

    def one_round(self, work, turn, running, where):
        (found, ratios), beside, base = where, {}, {}
        for peer, number in pairs.order(list(ratios), turn) or [(None, 0)]:
            name = peer or "handfast"
            try:
                row = hits.hit(running[name], self.origin, work)
            except Stolen:
                continue
            except Failed as problem:
                if not peer:
                    raise
                self.voids.append(f"{work}, {peer}: {problem}")
                ratios.pop(peer), found.pop(peer)
                continue
            self.keep(work, turn, row)
            found[name].append(row)
            (beside if peer else base)[peer or number] = (row, number)
        for peer, (row, number) in beside.items():
            if number in base and peer in ratios:
                ratios[peer].append(row["cpu_us"] / base[number][0]["cpu_us"])

    def evict(self):
        quick = self.options.quick
        found = hits.evict(FRONTS["handfast"], self.folder / "evict", self.certificate, self.origin, 2 if quick else 5, 1 if quick else 7)
        for name, row in found.items():
            self.keep(EVICTION, 0, {"what": name, **row})
        return found

    def conclude(self, results):
        """Writes the folder; exit code."""
        versions = {name: book.first_line([tools.handfast(), "--version"] if name == "handfast" else [tools.find(VERSIONS[name][0]), *VERSIONS[name][1:]])
                    for name in ("handfast", *self.peers)}
        setup = {"date": self.began, "commit": book.commit(tools.ROOT), "cpu": book.cpu(), "kernel": os.uname().release, "pairs": self.options.pairs,
                 **versions}
        (self.out / "cache.json").write_text(json.dumps({"setup": setup, "results": results, "void": self.voids}, indent=1) + "\n")
        head = ["# Hits of a cache beside its peers", "", *(f"- {name}: {value}" for name, value in setup.items()), ""]
        lines = table(results)
        notes = [f"- no figure: {void}" for void in self.voids]
        (self.out / "summary.md").write_text("\n".join([*head, *lines, *notes]) + "\n")
        print("\n".join([*lines, *notes, f"\nwritten to {self.out}"]))
        return 1 if self.voids else 0


def spread(values):
    return dict(zip(("median", "least", "greatest"), pairs.spread(values)), runs=len(values)) if values else None


def table(results):
    """Markdown lines."""
    lines = ["CPU time of the cache for each hit; the ratio is that of the peer over Handfast, in pairs of runs: above 1 the peer takes more.", "",
             "| hit | cache | µs: median | least | greatest | ratio: median (least to greatest) |", "|---|---|---|---|---|---|"]
    for work, found in results.items():
        for name, row in found.items() if work != EVICTION else ():
            if cost := row["cpu_us"]:
                ratio = row["ratio"]
                beside = f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['greatest']:.2f})" if ratio else ""
                lines.append(f"| {work} | {name} | {cost['median']:.2f} | {cost['least']:.2f} | {cost['greatest']:.2f} | {beside} |")
    if found := results.get(EVICTION):
        lines += ["", f"p99 of hits of one client over HTTPS, {hits.WARM:,} objects of {hits.OBJECT >> 10} KiB warm, in ms:", "",
                  "| meanwhile another client's requests are | objects stored | evicted | quiet | busy | ratio |", "|---|---|---|---|---|---|"]
        lines += [f"| {name} | {row['stored']:,} | {row['evicted']:,} | {row['quiet']:.2f} | {row['busy']:.2f} | {row['ratio']:.2f} |" for name, row in found.items()]
    return lines
