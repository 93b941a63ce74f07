#!/usr/bin/env python3
"""Whether `handfast load` counts what other generators count, and what each of them costs.

nginx (one worker, on the first CPU) is the target; the generators run on the second CPU, one after the other and back
again (A B C C B A), so that what changes on the machine meanwhile meets all of them. For each the rate that it reports
itself, and its own CPU time (user and system, from the kernel) for each unit of work. nginx's access log is off; its
counter of accepted connections and requests is compared with what Handfast says it did.

In: the path of the program (default target/release/handfast), ROUNDS (default 2) and SECONDS (default 3) in the
environment. Out: a table on standard output. It needs nginx, h2load, wrk, openssl and taskset.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from harness import machine
from harness.certificates import self_signed
from harness.rows import missing
from web import tools

ROUNDS = int(os.environ.get("ROUNDS", "2"))
SECONDS = int(os.environ.get("SECONDS", "3"))
ADDRESS, STATUS = (f"127.0.0.1:{machine.free_port()}" for _ in range(2))

NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  server {{ listen {status}; location / {{ stub_status; }} }}
  server {{
    listen {address} ssl http2; ssl_certificate {pem}; ssl_certificate_key {pem};
    ssl_protocols TLSv1.3; ssl_session_cache off; ssl_session_tickets off; keepalive_requests 100000000;
    location / {{ return 200 "hello\\n"; }}
  }}
}}
"""


def run(words):
    """Output, and CPU seconds of the children."""
    before = machine.children_cpu_ns()
    done = subprocess.run(["taskset", "-c", str(machine.LOAD_CORE), *words], capture_output=True, text=True, timeout=SECONDS * 10 + 60, check=False)
    return done.stdout + done.stderr, (machine.children_cpu_ns() - before) / 1e9


def served():
    """Connections accepted and requests handled, by nginx's own count."""
    text = urllib.request.urlopen(f"http://{STATUS}/", timeout=5).read().decode()
    accepts, _, requests = map(int, re.search(r"(\d+) (\d+) (\d+)", text).groups())
    return accepts, requests


def handfast(program, target, *words):
    def measure(folder):
        report = f"{folder}/report.json"
        common = ["--threads", "1", "-d", f"{SECONDS}s", "-q", "--json", report]
        before = served()
        # Exit code 3 says who was the limit; the counts hold all the same.
        text, cpu = run([program, "load", target, *words, *common])
        after = served()
        totals = json.loads(Path(report).read_text())["totals"]
        if totals["failed"]:
            sys.exit(f"handfast: {totals['failed']} failed\n{text}")
        # One connection more is that of the question itself.
        accepted = after[0] - before[0] - 1
        if accepted != totals["connections"]:
            sys.exit(f"nginx accepted {accepted} connections, handfast says {totals['connections']}")
        return totals["rate"], cpu / totals["transactions"]

    return measure


def other(words, count, rate):
    """A generator whose output has its count of units, and its rate, at these places."""

    def measure(_):
        text, cpu = run(words)
        counted, rated = re.search(count, text), re.search(rate, text)
        if not counted or not rated:
            sys.exit(f"cannot read what {words[0]} says:\n{text}")
        return float(rated.group(1)), cpu / float(counted.group(1))

    return measure


def s_time():
    def measure(_):
        words = ["openssl", "s_time", "-connect", ADDRESS, "-new", "-tls1_3", "-time", str(SECONDS)]
        text, cpu = run(words)
        # Its first line counts CPU seconds, its second one the wall's.
        count, seconds = re.search(r"(\d+) connections in (\d+) real seconds", text).groups()
        return int(count) / int(seconds), cpu / int(count)

    return measure


def works(program):
    url, seconds = f"https://{ADDRESS}/", str(SECONDS)
    wrk = (r"(\d+) requests in", r"Requests/sec:\s+([\d.]+)")
    h2load = (r"requests: \d+ total, \d+ started, (\d+) done", r"finished in [\d.]+s, ([\d.]+) req/s")
    return {
        "full handshakes, one after the other": {
            "handfast load --handshake-only -c 1": handfast(program, ADDRESS, "--handshake-only", "-c", "1"),
            "openssl s_time -new": s_time(),
        },
        "HTTP/1.1, a connection for each request, 16 at once": {
            "handfast load -n 1 -c 16": handfast(program, url, "-n", "1", "-c", "16"),
            "wrk -H 'Connection: close' -c 16": other(
                ["wrk", "-t", "1", "-c", "16", "-d", seconds, "-H", "Connection: close", url], *wrk
            ),
        },
        "HTTP/1.1 on 16 kept connections": {
            "handfast load -c 16": handfast(program, url, "-c", "16"),
            "wrk -c 16": other(["wrk", "-t", "1", "-c", "16", "-d", seconds, url], *wrk),
            "h2load --h1 -c 16": other(["h2load", "--h1", "-t", "1", "-c", "16", "-D", seconds, url], *h2load),
        },
        "HTTP/2 on 4 connections, 8 streams each": {
            "handfast load --http 2 --streams 8 -c 4": handfast(
                program, url, "--http", "2", "--streams", "8", "-c", "4"
            ),
            "h2load -c 4 -m 8": other(["h2load", "-t", "1", "-c", "4", "-m", "8", "-D", seconds, url], *h2load),
        },
    }


def main():
    program = tools.handfast(sys.argv[1] if len(sys.argv) > 1 else None)
    if packages := missing(["nginx", "h2load", "wrk", "openssl", "taskset"]):
        sys.exit(f"not installed: {', '.join(packages)}")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        pem = self_signed(folder, "localhost").pem
        config = Path(folder) / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, address=ADDRESS, status=STATUS, pem=pem))
        nginx = machine.Process(["nginx", "-p", folder, "-c", config], {machine.PROXY_CORE}, Path(folder) / "nginx.log")
        try:
            machine.wait_for_port(int(STATUS.rsplit(":", 1)[1]), nginx)
            compare(works(program), folder)
        finally:
            nginx.stop()


def compare(all_works, folder):
    for work, generators in all_works.items():
        seen = {name: [] for name in generators}
        for _ in range(ROUNDS):
            for name in [*generators, *reversed(generators)]:
                seen[name].append(generators[name](folder))
        print(f"{work}\n  {'generator':45} {'rate/s':>10} {'CPU µs each':>12}   rates of all runs")
        ours = None
        for name, figures in seen.items():
            rate = statistics.median(figure[0] for figure in figures)
            cpu = statistics.median(figure[1] for figure in figures) * 1e6
            ours = ours or cpu
            ratio = "" if ours == cpu else f"  CPU {cpu / ours:.2f} x ours"
            rates = " ".join(f"{figure[0]:.0f}" for figure in figures)
            print(f"  {name:45} {rate:10.0f} {cpu:12.1f}   {rates}{ratio}", flush=True)


main()
