"""What a hit costs a cache: CPU time for each response of 1 KiB and of 1 MiB, over plain HTTP, HTTPS and HTTP/2; and how long others wait while it evicts.

In: caches that run. Out: rows of figures, or Failed with the reason.

A figure is the difference of two runs with many and with few requests, so that connections and handshakes are not in it. The origin counts
requests: one that reaches it spoils the run. Every response is counted by the generator, and must have status 200.
"""

import os
import re
import subprocess
import time
import urllib.request

from attacks import measure
from harness import machine
from harness.machine import Cores, Failed, Process, Stolen
from web import fronts, h1, tools

KIB, MIB = 1024, 1 << 20
ORIGIN = """{user}daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 100000000; keepalive_timeout 300s; default_type application/octet-stream;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi; fastcgi_temp_path {folder}/fastcgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        add_header Cache-Control "max-age=86400";
        location /1k {{ alias {folder}/1k; }}
        location /1m {{ alias {folder}/1m; }}
        location /object/fresh/ {{ add_header Cache-Control no-store; root {folder}; try_files /object =404; }}
        location /object/ {{ root {folder}; try_files /object =404; }}
        location /status {{ stub_status; }}
    }}
}}
"""
# Work → path, options of h2load, requests of the longer run, whether the port has TLS. h2load asks for HTTP/1.1 by `--h1`.
WORKS = {
    "1 KiB, HTTP/1.1": ("/1k", ["--h1", "-c50"], 60_000, False),
    "1 KiB, HTTPS": ("/1k", ["--h1", "-c50"], 60_000, True),
    "1 KiB, HTTP/2": ("/1k", ["-c50", "-m4"], 60_000, True),
    "1 MiB, HTTP/1.1": ("/1m", ["--h1", "-c10"], 2_000, False),
    "1 MiB, HTTPS": ("/1m", ["--h1", "-c10"], 1_000, True),
    "1 MiB, HTTP/2": ("/1m", ["-c10", "-w30", "-W30"], 1_000, True),
}
# Content of one object of the eviction, and how many are warm.
OBJECT, WARM = 4 * KIB, 10_000
# More than is stored.
LARGE = 4 << 30


class Origin:
    """nginx on the generator's core, whose responses are fresh for a day."""

    def __init__(self, folder):
        self.port = machine.free_port()
        folder.mkdir()
        (folder / "1k").write_bytes(os.urandom(KIB))
        (folder / "object").write_bytes(os.urandom(OBJECT))
        (folder / "1m").write_bytes(os.urandom(MIB))
        user = "user root;\n" if os.geteuid() == 0 else ""
        config = folder / "nginx.conf"
        config.write_text(ORIGIN.format(folder=folder, port=self.port, user=user))
        self.process = Process([tools.find("nginx"), "-c", config, "-p", folder], {machine.LOAD_CORE}, folder / "output.log", folder)
        machine.wait_for_port(self.port, self.process)

    def requests(self):
        """Requests served, this question included."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=10) as answer:
            return int(re.search(r"\s\d+\s+\d+\s+(\d+)\s*\nReading", answer.read().decode())[1])


def start(adapter, folder, certificate, origin, **options):
    """A cache on the proxy's core."""
    front = adapter(folder, certificate, {"cores": {machine.PROXY_CORE}, "size": LARGE, **options})
    return front.start([fronts.Route("cache", origin.port)])


def ask(port, path, tls=False):
    """One response, over a connection of its own."""
    connection = h1.Connection(port, tls=tls)
    connection.send(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
    answer = connection.response(10)
    connection.close()
    if not answer or answer.status != 200:
        raise Failed(f"{path}: expected status 200, received {answer and answer.status}")
    return answer


def warm(front, origin, path, tls):
    """Asks until a response does not reach the origin."""
    port = front.routes[0].tls if tls else front.routes[0].plain

    def is_hit():
        ask(port, path, tls)
        before = origin.requests()
        ask(port, path, tls)
        return origin.requests() == before + 1
    machine.wait_until(f"{front.name} to have {path}", is_hit, 10, front.process)


def load(front, words, requests, url):
    """CPU nanoseconds of the cache for that many responses."""
    members = front.members()
    before = machine.settled_cpu_ns(members)
    done = subprocess.run(["taskset", "-c", str(machine.LOAD_CORE), "h2load", "-t1", *words, f"-n{requests}", url], capture_output=True, text=True,
                          timeout=120, check=False)
    if f"{requests} succeeded" not in done.stdout or f"status codes: {requests} 2xx" not in done.stdout:
        raise Failed(f"{front.name}, h2load: {' / '.join(re.findall('^(?:requests|status codes):.*', done.stdout, re.M)) or done.stderr[-300:]}")
    return machine.settled_cpu_ns(members) - before


def hit(front, origin, work):
    """CPU microseconds for each hit."""
    path, words, many, tls = WORKS[work]
    few = many // 10
    warm(front, origin, path, tls)
    # The same host as in the request that warmed it: it is part of the key.
    url = f"{'https' if tls else 'http'}://localhost:{front.routes[0].tls if tls else front.routes[0].plain}{path}"
    cores, before = Cores(), origin.requests()
    spent = load(front, words, many, url) - load(front, words, few, url)
    cores.since()
    if cores.much_stolen():
        raise Stolen("the hypervisor took too much of a core")
    if (asked := origin.requests() - before - 1) > 0:
        raise Failed(f"{front.name}, {work}: {asked} requests reached the origin")
    return {"front": front.name, "cpu_us": spent / (many - few) / 1000}


def evict(adapter, folder, certificate, origin, seconds, rounds):
    """p99 of hits in ms: quiet, and while another client's requests are forwarded, are stored, or push out another object each."""
    found = {}
    for name, size, path in (("forwarded", LARGE, "fresh/"), ("stored", LARGE, "new-"), ("stored, others evicted", WARM * OBJECT, "new-")):
        front = start(adapter, folder / f"{path.strip(chr(47))}{size}", certificate, origin, size=size)
        try:
            fill(front, WARM)
            before = changes(front)
            cost = measure.cost(front, lambda port, path=path: new_objects(port, path), seconds, rounds, "/object/1", OBJECT)
            stored, gone = (now - then for now, then in zip(changes(front), before))
            if cost.failed or (stored > 100, gone > 100) != (path == "new-", size != LARGE):
                raise Failed(f"{name}: {cost.failed} requests failed, {stored} objects were stored and {gone} evicted")
            found[name] = {"quiet": cost.quiet, "busy": cost.attacked, "ratio": cost.attacked / cost.quiet, "stored": stored, "evicted": gone}
        finally:
            front.stop()
    return found


def fill(front, count):
    """Stores that many objects."""
    port = front.routes[0].tls
    connection = h1.Connection(port, tls=True)
    for number in range(count):
        connection.send(f"GET /object/{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = connection.response(10)
        if not answer or answer.status != 200:
            raise Failed(f"store object {number}: {answer and answer.status}")
    connection.close()
    machine.wait_until(f"{count} objects to be stored", lambda: changes(front)[0] >= count, 60, front.process)


def new_objects(port, path):
    """An attacker in the sense of attacks/measure.py: asks for objects that are not there, one after the other."""
    connection, number = h1.Connection(port, tls=True), time.monotonic_ns()
    while True:
        number += 1
        connection.send(f"GET /object/{path}{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        if not connection.response(10):
            connection = h1.Connection(port, tls=True)


def changes(front):
    """Objects that the cache of the TLS service has stored and evicted."""
    done = subprocess.run([tools.handfast(), "cache", "stats", "--at", f"unix:{front.folder}/admin.sock"], capture_output=True, text=True, timeout=10,
                          check=False)
    text = done.stdout.partition("cache-tls")[2]
    return tuple(int(found[1]) if (found := re.search(rf"{word} (\d+)", text)) else 0 for word in ("stored", "evicted"))
