"""The program of scripts/interop-first-request: Handfast and its peers in front of one echo, and each client through all of them in turn."""

import statistics
import subprocess
import sys
from pathlib import Path

from harness import echo, machine, rows
from harness.certificates import self_signed
from harness.machine import Failed, Process
from harness.proxy import Proxy
from web import tools

SOURCES = Path(__file__).resolve().parent / "first_request"
VERSIONS = ("1.2", "1.3")
# First requests of a client through a proxy, in rounds of which each goes through all of them: noise is shared.
ROUNDS, TIMES = 5, 10
# Microseconds that Handfast may be later than the fastest peer, or this part of its time: where a client waits for a delayed acknowledgement with all
# of them, the kernel's timer has steps of 4 ms.
MARGIN, PART = 1000, 0.1

HANDFAST = """[[service]]
name = "echo"
listen = "127.0.0.1:{port}"
backend = "127.0.0.1:{echo}"
certificate = "{pem}"
[admin]
listen = "off"
"""
NGINX = """daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
events {{ }}
stream {{ server {{ listen 127.0.0.1:{port} ssl; proxy_pass 127.0.0.1:{echo}; ssl_protocols TLSv1.2 TLSv1.3;
  ssl_certificate {pem}; ssl_certificate_key {pem}; }} }}
"""
HAPROXY = """defaults
  mode tcp
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend f
  bind 127.0.0.1:{port} ssl crt {pem}
  default_backend b
backend b
  server s 127.0.0.1:{echo}
"""
STUNNEL = """foreground = yes
pid =
syslog = no
[f]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{echo}
cert = {pem}
"""
# Programs, their configurations, and their options.
PEERS = {
    "nginx": (NGINX, ("-c",), ("nginx", "/usr/lib/nginx/modules/ngx_stream_module.so")),
    "haproxy": (HAPROXY, ("-f",), ("haproxy",)),
    "stunnel": (STUNNEL, (), ("stunnel",)),
}
# Clients: the programs that they need, how they are made, how they are run.
CLIENTS = {
    "OpenSSL (Python)": ((), None, [sys.executable, SOURCES / "client.py"]),
    "Go": (("go",), ["go", "build", "-o", "go-client", SOURCES / "client.go"], ["./go-client"]),
    "JDK": (("java", "javac"), ["javac", "-d", ".", SOURCES / "Client.java"], ["java", "-cp", ".", "Client"]),
    "Erlang": (("escript",), None, ["escript", SOURCES / "client.escript"]),
    "mbedTLS": (
        ("gcc", "/usr/include/mbedtls/ssl.h"),
        ["gcc", "-O1", "-o", "mbedtls-client", SOURCES / "client.c", "-lmbedtls", "-lmbedcrypto", "-lmbedx509"],
        ["./mbedtls-client"],
    ),
}


def run(words, folder):
    done = subprocess.run([str(word) for word in words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120, check=False)
    if done.returncode:
        raise Failed(f"{words[0]}: exit code {done.returncode}: {done.stderr.decode(errors='replace').strip()[-400:]}")
    return done.stdout.decode()


def start_all(found, folder):
    """The proxies that are installed: their names and ports."""
    pem = self_signed(folder, "localhost").pem
    pem.chmod(0o600)
    target = machine.free_port()
    echo.start(target, folder / "echo.log")
    ports = {"Handfast": machine.free_port()}
    Proxy(tools.handfast_argument(), folder, HANDFAST.format(port=ports["Handfast"], echo=target, pem=pem))
    for name, (text, options, programs) in PEERS.items():
        if packages := rows.missing(programs):
            found.row("skipped", name, f"not installed: {', '.join(packages)}")
            continue
        ports[name] = machine.free_port()
        file = folder / f"{name}.conf"
        file.write_text(text.format(port=ports[name], echo=target, pem=pem, folder=folder))
        process = Process([tools.find(programs[0]), *options, file], None, folder / f"{name}.log", folder)
        machine.wait_for_port(ports[name], process)
    return ports


def measure(client, ports, version, folder):
    """The median microseconds of a first request, by proxy."""
    times = {name: [] for name in ports}
    for _ in range(ROUNDS):
        for name, port in ports.items():
            times[name] += [int(line) for line in run([*client, port, TIMES, version], folder).split()]
    return {name: statistics.median(found) for name, found in times.items()}


def check(found, folder):
    ports = start_all(found, folder)
    if len(ports) == 1:
        raise Failed("no peer is installed; hint: `scripts/install-missing package haproxy nginx libnginx-mod-stream stunnel4`")
    for client, (programs, make, words) in CLIENTS.items():
        def compare(client=client, make=make, words=words):
            if make:
                run(make, folder)
            for version in VERSIONS:
                medians = measure(words, ports, version, folder)
                shown = ", ".join(f"{name} {value / 1000:.2f} ms" for name, value in medians.items())
                fastest = min(value for name, value in medians.items() if name != "Handfast")
                late = medians["Handfast"] > fastest + max(MARGIN, fastest * PART)
                found.row("FAILED" if late else "ok", f"{client}, TLS {version}", shown)
        found.group(client, programs, compare)


def main():
    return rows.main("interop-first-request", check)
