"""The backends: how each is started, and the requests that each has seen.

In: a folder. Out: running servers on loopback, each with a port and a file of JSON lines. A new backend is one entry in BACKENDS.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from harness import machine
from harness.machine import Failed, Process
from harness.peers import fill
from web import tools

SERVERS = Path(__file__).resolve().parent / "servers"
PYTHON = "@VENV@/bin/python"
QUIET = ["--bind", "127.0.0.1:@PORT@", "--log-level", "critical"]

# name → (programs or files that must exist, command; @WORDS@ are replaced). Those in TEMPLATES have a FastCGI program behind them.
BACKENDS = {
    "nginx": (["nginx"], ["nginx", "-c", "@CONFIG@", "-p", "@FOLDER@"]),
    "apache2": (["apache2"], ["apache2", "-X", "-f", "@CONFIG@"]),
    "lighttpd": (["lighttpd"], ["lighttpd", "-D", "-f", "@CONFIG@"]),
    "node": (["node"], ["node", "@SERVERS@/echo.js", "@PORT@"]),
    "go": (["garden-go"], ["garden-go", "@PORT@"]),
    "jetty": (["java", "jetty/Echo.class"], ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", "@TOOLS@/jetty:@TOOLS@/jetty/*", "Echo", "@PORT@"]),
    "gunicorn": (["gunicorn"], ["gunicorn", *QUIET, "--worker-class", "gthread", "--threads", "4", "--keep-alive", "60", "wsgi_echo:app"]),
    "waitress": (["waitress-serve"], ["waitress-serve", "--listen=127.0.0.1:@PORT@", "--no-clear-untrusted-proxy-headers", "wsgi_echo:app"]),
    "uvicorn-h11": (["uvicorn"], ["uvicorn", "--port", "@PORT@", "--http", "h11", "--log-level", "critical", "--timeout-keep-alive",
                                  "60", "asgi_echo:app"]),
    "uvicorn-httptools": (["uvicorn"], ["uvicorn", "--port", "@PORT@", "--http", "httptools", "--log-level", "critical",
                                        "--timeout-keep-alive", "60", "asgi_echo:app"]),
    "hypercorn": (["hypercorn"], ["hypercorn", *QUIET, "--keep-alive", "60", "asgi_echo:app"]),
    "aiohttp": (["gunicorn"], [PYTHON, "@SERVERS@/aiohttp_echo.py", "@PORT@"]),
    "tornado": (["gunicorn"], [PYTHON, "@SERVERS@/tornado_echo.py", "@PORT@"]),
    "strict": ([], [PYTHON, "@SERVERS@/strict_echo.py", "@PORT@"]),
}
TEMPLATES = {"nginx": "nginx.conf", "apache2": "apache.conf", "lighttpd": "lighttpd.conf"}


@dataclass
class Backend:
    """A running backend."""

    name: str
    port: int
    process: Process
    seen: Path
    # How much of the file was read: a run of the fuzzer has hundreds of rounds.
    read: int = 0

    def new_requests(self):
        """The requests that its file has since the last call, in order."""
        with open(self.seen, "rb") as file:
            file.seek(self.read)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self.read += len(text)
        # Not splitlines(): a target may have U+0085.
        return [json.loads(line, strict=False) for line in text.decode("utf-8", "replace").split("\n")[:-1]]


def missing(name):
    """The programs that this backend needs and that are not installed."""
    return [need for need in BACKENDS[name][0] if not tools.find(need)]


def start(name, folder):
    """Starts a backend and waits until it accepts. Deadline: 30 s."""
    folder = Path(folder) / name
    folder.mkdir(parents=True)
    os.chmod(folder, 0o777)
    seen, port, echo = folder / "seen.jsonl", machine.free_port(), machine.free_port()
    seen.touch()
    values = {"PORT": port, "ECHO": echo, "FOLDER": folder, "SERVERS": SERVERS, "VENV": tools.VENV, "TOOLS": tools.TOOLS,
              "CONFIG": folder / "server.conf", "USER": "User www-data\nGroup www-data" if os.geteuid() == 0 else ""}
    environment = {"SEEN": str(seen), "PYTHONPATH": str(SERVERS)}
    os.environ.update(environment)
    if name in TEMPLATES:
        values["CONFIG"].write_text(fill((SERVERS / TEMPLATES[name]).read_text(), values))
        behind = Process([fill(PYTHON, values), SERVERS / "fastcgi_echo.py", echo], None, folder / "echo.log", SERVERS)
        machine.wait_for_port(echo, behind)
    words = [fill(word, values) for word in BACKENDS[name][1]]
    words[0] = tools.find(words[0]) or words[0]
    process = Process(words, None, folder / "output.log", SERVERS)
    machine.wait_for_port(port, process)
    return Backend(name, port, process, seen)


def start_all(names, folder):
    """(running backends, names with the reason why they are missing)."""
    running, absent = [], []
    for name in names:
        lacking = missing(name)
        if lacking:
            absent.append((name, f"not installed: {', '.join(lacking)}"))
            continue
        try:
            running.append(start(name, folder))
        except (Failed, OSError) as reason:
            absent.append((name, str(reason)))
    return running, absent
