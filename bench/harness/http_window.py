"""One measured window of HTTP load through one front: CPU time of the front for each request, with what must not happen asserted.

In: a running front, a generator's command. Out: a row of figures, or Failed with the reason.

The generator starts first. The window begins when its connections are open and ends before it does, so handshakes and connects are not in it.
Requests and its connections are counted by the backend, the generator's are in the kernel's table: a new one within the window spoils the run.
"""

import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

from . import machine
from .machine import Cores, Failed, Process, Stolen

# What a browser sends, 478 bytes with request line and Host.
BROWSER = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "Accept-Language": "en-GB,en;q=0.9,de;q=0.8",
    "Accept-Encoding": "gzip, deflate, br",
    "Cookie": "session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes",
    "Sec-Fetch-Mode": "navigate",
}
WARM_UP = 1.0
BACKEND = """{user}daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
worker_processes 1;
worker_rlimit_nofile 20000;
events {{ worker_connections 20000; multi_accept on; }}
http {{
    access_log off; tcp_nodelay on;
    keepalive_requests 100000000; keepalive_timeout 300s; http2_max_requests 100000000; http2_max_concurrent_streams 1000;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi; fastcgi_temp_path {folder}/fastcgi;
    default_type text/plain;
    upstream itself {{ server 127.0.0.1:{port}; keepalive 64; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen 127.0.0.1:{h2c} http2 backlog=4096;
        location /1k {{ return 200 "{content}"; }}
        location /1m {{ alias {folder}/large; }}
        # Content is read before the response, which is that of a second request.
        location /take {{
            client_max_body_size 2m; client_body_buffer_size 2m; proxy_pass http://itself/1k; proxy_http_version 1.1;
            proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header Connection "";
        }}
        location /status {{ stub_status; }}
    }}
}}
"""
CONTENT = "0123456789abcdef" * 64


class Backend:
    """nginx on the generator's core: 1 KiB at /1k, over HTTP/1.1 and HTTP/2 without TLS."""

    def __init__(self, folder, user):
        self.port, self.h2c = machine.free_port(), machine.free_port()
        folder.mkdir()
        (folder / "large").write_bytes(CONTENT.encode() * 1024)
        config = folder / "nginx.conf"
        config.write_text(BACKEND.format(folder=folder, port=self.port, h2c=self.h2c, content=CONTENT, user=user))
        self.process = Process(["nginx", "-c", config, "-p", folder], {machine.LOAD_CORE}, folder / "output.log", folder)
        machine.wait_for_port(self.port, self.process)

    def counts(self):
        """(connections accepted, requests served), those of this question included."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=10) as answer:
            accepts, _, requests = re.search(r"\s(\d+)\s+(\d+)\s+(\d+)\s*\nReading", answer.read().decode()).groups()
        return int(accepts), int(requests)


def clients(port):
    """The ports of the clients that are connected to a port of this machine."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {words[2] for words in lines if words[1] == f"0100007F:{port:04X}" and words[3] == "01"}


def commands(port, seconds, headers, folder):
    """Generator → command. Both run longer than warm-up and window."""
    duration = int(WARM_UP + seconds + 2)
    fields = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    url = f"https://127.0.0.1:{port}/1k"
    h2load = ["h2load", "-t1", f"-D{duration}", *fields]
    return {
        "wrk": ["wrk", "-t1", "-c50", f"-d{duration}s", *fields, url],
        "wrk-close": ["wrk", "-t1", "-c50", f"-d{duration}s", *fields, "-H", "Connection: close", url],
        "h2load-50x4": [*h2load, "-c50", "-m4", url],
        "h2load-1x100": [*h2load, "-c1", "-m100", url],
        "h2load-bulk": [*h2load, "-c4", "-m4", f"https://127.0.0.1:{port}/1m"],
        "h2load-upload": [*h2load, "-c4", "-m4", "-d", str(folder / "backend/large"), f"https://127.0.0.1:{port}/take"],
        # Without content: nginx as a backend responds before it has read it, and nginx as a proxy then fails at times.
        "h2load-grpc": [*h2load, "-c50", "-m4", "-H", "content-type: application/grpc", "-H", "te: trailers", url],
    }


def check(generator, out):
    """Fails on any error that the generator reports."""
    if "wrk" in generator:
        wrong = re.findall(r"Socket errors:.*|Non-2xx.*", out)
        # wrk counts the end of a connection by `Connection: close` as a read error in some versions.
        wrong = [line for line in wrong if generator != "wrk-close" or "Non-2xx" in line]
    else:
        counts = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", out)
        statuses = re.search(r"status codes: \d+ 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", out)
        wrong = [] if counts and statuses else [f"no result: {out[-200:]}"]
        if counts and any(map(int, counts.groups())) or statuses and any(map(int, statuses.groups())):
            wrong = [counts[0], statuses[0]]
    if wrong:
        raise Failed(f"{generator}: {'; '.join(wrong)}")


def measure(front, backend, generator, seconds, folder):
    """One run: a row of figures."""
    words = commands(front.routes[0].tls, seconds, BROWSER, folder)[generator]
    load = Process(words, {machine.LOAD_CORE}, folder / "generator.log", stdout=subprocess.PIPE)
    try:
        # The time that the window is away from the start; nothing is waited for.
        time.sleep(WARM_UP)
        members, cores = front.members(), Cores()
        before = (*backend.counts(), machine.cpu_ns(members), time.monotonic())
        connected = clients(front.routes[0].tls)
        time.sleep(seconds)
        after = (*backend.counts(), machine.cpu_ns(members), time.monotonic())
        new_clients = clients(front.routes[0].tls) - connected
        stolen = cores.since()
        if "wrk" in generator:
            load._signal(signal.SIGINT)
        out = load.process.communicate(timeout=30)[0].decode()
    finally:
        load.stop()
    check(generator, out)
    # One connection and one request are those of the second question.
    opened, requests, cpu_ns, elapsed = after[0] - before[0] - 1, after[1] - before[1] - 1, after[2] - before[2], after[3] - before[3]
    if generator == "h2load-upload":
        # The backend counts its own request for each.
        requests //= 2
    if requests < 100:
        raise Failed(f"{requests} requests within {seconds:g} s: {out[-200:]}")
    # With a connection for each request, the number of requests at once varies, and the pool with it; so it does with content of some length.
    if opened > (requests / 20 if generator in ("wrk-close", "h2load-upload") else 0):
        raise Failed(f"{opened} connections to the backend were opened within the window")
    if new_clients and generator != "wrk-close":
        raise Failed(f"the generator opened {len(new_clients)} connections within the window")
    if cores.much_stolen():
        raise Stolen(f"the hypervisor took {max(stolen.values()):.1%} of a core")
    return {"front": front.label, "generator": generator, "requests": requests, "cpu_us": cpu_ns / requests / 1000,
            "rate": requests / elapsed}
