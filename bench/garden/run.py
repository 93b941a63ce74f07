"""The garden's program: arguments, the servers, the rounds, the exit code. scripts/garden starts it."""

import argparse
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from harness import machine, peers
from web import fronts, tools

from . import backends, exchange, fuzz, judge, payloads, report


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/garden", description=__doc__.split("\n")[0])
    parser.add_argument("--front", default="handfast", help="handfast (default; its program is $HANDFAST), haproxy or nginx")
    parser.add_argument("--backends", default=",".join(backends.BACKENDS), help="names with commas; default: all")
    parser.add_argument("--cases", default="", help="only cases that have this text in their class or name")
    parser.add_argument("--allow-missing", action="store_true", help="missing backends do not make the exit code 1")
    parser.add_argument("--fuzz", type=float, metavar="SECONDS", help="mutated payloads for this time instead of the tables")
    parser.add_argument("--seed", type=int, help="seed of --fuzz; default: a new one, which is printed")
    parser.add_argument("--apart", action="store_true", help="the marker after the first response instead of right behind the payload")
    parser.add_argument("--json", type=Path, help="results; default: target/garden/FRONT.json")
    parser.add_argument("--keep", action="store_true", help="keep the folder with configurations and logs")
    return parser.parse_args()


class Garden:
    """The running servers."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="handfast-garden."))
        os.chmod(self.folder, 0o755)
        self.running, self.absent = backends.start_all(options.backends.split(","), self.folder)
        if not self.running:
            raise machine.Failed(f"no backend runs: {self.absent}")
        certificate = peers.make_certificates(self.folder)["ecdsa"]
        self.front = fronts.make(options.front, self.folder, certificate)
        self.routes = [fronts.Route(backend.name, backend.port) for backend in self.running]
        self.front.start(self.routes)
        # How much of the front's log was read in rounds before, and the lines of the last one: some requests end after their round.
        self.read, self.before = 0, []
        for backend, route in zip(self.running, self.routes):
            found = exchange.other_connection(exchange.Lane(backend, route), "0000")
            if found != (200, "/o-0000"):
                raise machine.Failed(f"send a plain request through {self.front.name} to {backend.name}: received {found}")

    def round(self, cases, apart):
        """Every case on every lane at once: (lanes, what backends saw, findings)."""
        lanes = [exchange.Lane(backend, route) for backend, route in zip(self.running, self.routes)]
        threads = []
        for lane in lanes:
            threads.append(threading.Thread(target=exchange.run_all, args=(lane, cases, apart)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        seen, log = self.collect(lanes)
        return lanes, seen, judge.judge(lanes, seen, log)

    def collect(self, lanes):
        """What backends saw, by token, and the log, once it has a line for each marker (5 s at most)."""
        end = time.monotonic() + 5
        wanted = {f"/o-{outcome.token}" for lane in lanes for outcome in lane.outcomes if outcome.other[1]}
        while True:
            log, end_of_log = self.front.requests(self.read)
            paths = {judge.plain_target(str(entry.get("path") or "")) for entry in log}
            if wanted <= paths or time.monotonic() > end:
                break
            time.sleep(0.1)
        tokens = {outcome.token for lane in lanes for outcome in lane.outcomes}
        self.read, log, self.before = end_of_log, self.before + log, log
        seen = {}
        for lane in lanes:
            grouped = judge.by_token(lane.backend.new_requests())
            seen[lane.backend.name] = {token: found for token, found in grouped.items() if token in tokens}
        return seen, log

    def stop(self):
        machine.stop_all()
        if not self.options.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def tables(garden):
    """The tables once. Exit code."""
    options = garden.options
    cases = [case for case in payloads.all_cases() if options.cases in case.label]
    if not cases:
        raise machine.Failed(f"no case has {options.cases!r} in its name")
    lanes, seen, findings = garden.round(cases, options.apart)
    wrong = report.violations(findings, garden.front)
    for line in (*report.details(wrong), "", *report.table(lanes, findings), ""):
        print(line)
    path = options.json or tools.TOOLS.parent / "garden" / f"{garden.front.name}.json"
    report.write(path, garden.front, lanes, seen, findings, garden.absent)
    broken = len({finding.case.label if finding.case else finding.what for finding in wrong})
    print(f"{garden.front.name}: {len(cases)} cases, {len(lanes)} backends, {broken} cases with a violation, "
          f"{len(findings) - len(wrong)} notes about other verdicts; {path}")
    return 1 if wrong else 0


def main():
    options = arguments()
    garden = None
    try:
        garden = Garden(options)
        print(f"front {garden.front.name}; backends: {', '.join(backend.name for backend in garden.running)}")
        code = fuzz.run(garden) if options.fuzz else tables(garden)
    except machine.Failed as problem:
        print(f"garden: {problem}")
        return 2
    finally:
        if garden:
            garden.stop()
        machine.stop_all()
    for name, reason in garden.absent:
        print(f"MISSING {name}: {reason}")
    if garden.absent:
        print(f"{len(garden.absent)} backends are missing; hint: `scripts/install-missing garden`")
        code = code or (0 if options.allow_missing else 1)
    return code
