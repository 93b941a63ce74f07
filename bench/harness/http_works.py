"""The works of the HTTP benchmark: W1 to W4 and W6 as windows of load, system calls, W7 memory of idle connections, W8 tunnels.

In: a folder, contestants. Out: rows. Contestants are started for each work, so that one work's memory is not another's.
"""

import re
import subprocess
import time

from web import fronts, h1, tools
from web.frames import Peer, headers, request

from . import machine, pairs
from .http_window import CONTENT, measure
from .machine import Failed, Process, Stolen

# name → (generator, options of the fronts, whether the backend speaks HTTP/2, whether a TCP mode can do it)
WINDOWS = {
    "W1": ("wrk", {}, False, True),
    "W2": ("wrk", {"log": True}, False, False),
    "W3-50x4": ("h2load-50x4", {}, False, False),
    "W3-1x100": ("h2load-1x100", {}, False, False),
    # A TCP mode connects to the backend as often as the client does, so it is no comparison.
    "W4": ("wrk-close", {}, False, False),
    "W6-grpc": ("h2load-grpc", {}, True, False),
    # CPU time for each response, and each request, with 1 MiB of content over HTTP/2.
    "bulk-1MiB": ("h2load-bulk", {}, False, False),
    "upload-1MiB": ("h2load-upload", {}, False, False),
}


def start(name, folder, certificate, ports, options=None):
    """A running contestant on the proxy's core. `ports` are (backend, backend with HTTP/2 or None)."""
    kind, _, mode = name.partition("-")
    chosen = {"log": False, "cores": {machine.PROXY_CORE}, "mode": "tcp" if mode == "tcp" else "http", "newest": mode == "newest", **(options or {})}
    front = fronts.make(kind, folder / f"{name}-{time.monotonic_ns()}", certificate, chosen)
    front.label = name
    backend, h2c = ports
    return front.start([fronts.Route("web", h2c or backend, backend_h2=bool(h2c))])


def parity(contestants):
    """Every contestant must deliver the same status, content and fields."""
    found = {}
    for front in contestants:
        connection = h1.Connection(front.routes[0].tls, tls=True)
        connection.send(b"GET /1k HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = connection.response(5)
        connection.close()
        if not answer or answer.status != 200 or answer.body != CONTENT.encode():
            raise Failed(f"{front.label}: the response is {answer and (answer.status, len(answer.body))}, expected 200 with 1 KiB")
        found[front.label] = sorted(name.lower() for name, _ in answer.headers if name.lower() not in ("server", "connection", "keep-alive"))
    if len({tuple(names) for names in found.values()}) > 1:
        raise Failed(f"the fields of the responses differ: {found}")


def window_work(bench, name):
    """A B B A over all contestants: {contestant: rows}, {contestant: ratios to the base}."""
    generator, options, with_h2, tcp = WINDOWS[name]
    ports = (bench.backend.port, bench.backend.h2c if with_h2 else None)
    labels = [label for label in bench.labels if tcp or not label.endswith("-tcp")]
    running = {label: start(label, bench.folder, bench.certificate, ports, options) for label in labels}
    try:
        if not with_h2:
            parity(running.values())
        rows, ratios = {label: [] for label in running}, {label: [] for label in running if label != bench.base}
        for turn in range(bench.pairs):
            one_round(bench, name, (running, generator, turn), rows, ratios)
    finally:
        for front in running.values():
            front.stop()
    return rows, ratios


def one_round(bench, name, what, rows, ratios):
    """Every contestant beside a run of the base."""
    running, generator, turn = what
    found, base = {}, {}
    for peer, number in pairs.order(list(ratios), turn) or [(None, 0)]:
        label = peer or bench.base
        try:
            row = measure(running[label], bench.backend, generator, bench.seconds, bench.folder)
        except Stolen:
            continue
        except Failed as problem:
            raise Failed(f"{name}, {label}: {problem}") from None
        bench.keep(name, turn, row)
        rows[label].append(row)
        if peer:
            found[peer] = (row, number)
        else:
            base[number] = row
    for peer, (row, number) in found.items():
        if number in base:
            ratios[peer].append(row["cpu_us"] / base[number]["cpu_us"])


def system_calls(bench, label, few=1000, many=6000):
    """System calls for each request under strace: the difference of two runs, so start, handshakes and end are not in it."""
    counts = []
    for requests in (few, many):
        front = start(label, bench.folder, bench.certificate, (bench.backend.port, None))
        path = bench.folder / "strace.txt"
        try:
            attach = [word for pid in front.members() for word in ("-p", str(pid))]
            tracer = Process(["strace", "-c", "-f", "-o", path, *attach], {machine.LOAD_CORE}, bench.folder / "strace.log")
            tracer.wait_for("attached")
            words = ["h2load", "--h1", "-t1", "-c10", f"-n{requests}", f"https://127.0.0.1:{front.routes[0].tls}/1k"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
            if f"{requests} succeeded" not in done.stdout:
                raise Failed(f"{label} under strace: {done.stdout[-200:]}")
            tracer._signal(2)
            tracer.process.wait(20)
            counts.append(int(re.findall(r"\s(\d+)\s+(?:\d+\s+)?total", path.read_text())[-1]))
        finally:
            front.stop()
    return (counts[1] - counts[0]) / (many - few)


def idle(bench, label, version, count):
    """Resident KiB for each idle connection that has had one request."""
    front = start(label, bench.folder, bench.certificate, (bench.backend.port, None))
    open_ones = []
    try:
        open_ones += [one_request(front, version) for _ in range(20)]
        before = machine.memory_kib(front.members())[0]
        open_ones += [one_request(front, version) for _ in range(count)]
        time.sleep(bench.quiet)
        return (machine.memory_kib(front.members())[0] - before) / count
    finally:
        for connection in open_ones:
            connection.close()
        front.stop()


def one_request(front, version):
    """A connection after one request."""
    if version == "h2":
        peer = Peer(front.routes[0].tls)
        peer.send(headers(1, request(b"/1k", authority=b"localhost")))
        if peer.wait(1)["status"] != 200:
            raise Failed(f"{front.label}: no 200 over HTTP/2")
        return peer
    connection = h1.Connection(front.routes[0].tls, tls=True)
    connection.send(b"GET /1k HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = connection.response(5)
    if not answer or answer.status != 200:
        raise Failed(f"{front.label}: no 200 over HTTP/1.1")
    return connection


def tunnels(bench, label, count, rounds):
    """CPU microseconds for each message of 64 bytes there and back, over tunnels after a 101."""
    echo, port = tools.client_backend(bench.folder / "echo.log", {machine.LOAD_CORE})
    front = start(label, bench.folder, bench.certificate, (port, None))
    try:
        open_ones = [h1.websocket(front.routes[0].tls, 5) for _ in range(count)]
        exchange(open_ones, 2)
        members = front.members()
        before = machine.cpu_ns(members)
        exchange(open_ones, rounds)
        return (machine.cpu_ns(members) - before) / (count * rounds) / 1000
    finally:
        front.stop()
        echo.stop()


def exchange(open_ones, rounds):
    """Each tunnel sends one message and receives it, in turn, that number of times."""
    message = bytes([0x82, 0x80 | 64, 0, 0, 0, 0]) + b"x" * 64
    for _ in range(rounds):
        for connection in open_ones:
            connection.send(message)
        for connection in open_ones:
            while len(connection.buffer) < 66:
                if not connection.fill(time.monotonic() + 10):
                    raise Failed("a tunnel does not echo")
            connection.buffer = connection.buffer[66:]
