"""Recipes of the first page: an application with uploads and WebSocket, backends with health checks, a redirect to https.

In: a trial. Out: its rows.
"""

import os
import urllib.request

from web import tools

from .page import Section, changed
from .programs import MODULES, PYTHON
from .trial import HERE, free_port, run

MIB = 1 << 20


def application(trial):
    port = free_port()
    trial.node(port, "app.js", "one", MODULES)
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{port}"})
    for size in (50, 120):
        with open(trial.folder / f"f{size}", "wb") as file:
            file.truncate(size * MIB)
    for version, answer in trial.both("/upload", "-T", trial.folder / "f50").items():
        trial.check(f"HTTP/{version}: an upload of 50 MiB", answer.text, f"one: {50 * MIB} bytes\n")
    for version, answer in trial.both("/upload", "-T", trial.folder / "f120", good=(0, 55, 56, 92)).items():
        trial.check(f"HTTP/{version}: one of 120 MiB", answer.status, 413)
    # The page names the client of the page about TCP.
    section = Section("proxy/recipes.md", "WebSocket")
    (trial.folder / "client.py").write_text(changed(section.name, section.block("python"), {"wss://localhost/": f"wss://localhost:{trial.port}/chat"}))
    trial.check("WebSocket by HTTP/1.1", run([PYTHON, "client.py"], folder=trial.folder), "hello\n")
    seen = run([tools.find("node"), HERE / "websocket-h2.js", f"https://localhost:{trial.port}/chat", trial.ca])
    trial.check("WebSocket by HTTP/2", seen, "200\nhello\n")
    lines = trial.log(lambda line: line.get("status") == 101, 2)
    trial.check("the log has status 101", sorted(line["protocol"] for line in lines), ["h2", "http/1.1"])


def health_checks(trial):
    ports = {"one": free_port(), "two": free_port()}
    servers = {name: trial.node(port, "app.js", name, MODULES) for name, port in ports.items()}
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{ports['one']}", "127.0.0.1:8081": f"127.0.0.1:{ports['two']}"})
    log, backend = trial.proxy.process, f"service web: backend 127.0.0.1:{ports['two']}"

    def answers():
        return {trial.curl("/").text for _ in range(8)}
    trial.check("both backends answer", answers(), {"one: 0 bytes\n", "two: 0 bytes\n"})
    # A first check that fails has another message.
    servers["two"].wait_for("checked\n")
    set_health(ports["two"], 503)
    log.wait_for(f"{backend} is down: 2 checks in a row failed: status 503, expected 200 to 399")
    trial.check("when the second one is not healthy, the first one answers", answers(), {"one: 0 bytes\n"})
    set_health(ports["two"], 200)
    log.wait_for(f"{backend} is up again after ")
    trial.check("and both when it is", answers(), {"one: 0 bytes\n", "two: 0 bytes\n"})


def set_health(port, status):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/health?status={status}", method="POST")
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()


def redirect(trial):
    port, plain = free_port(), free_port()
    trial.node(port, "app.js", "one", MODULES)
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{port}", "*:80": f"127.0.0.1:{plain}"})
    for version in ("--http1.1", "--http2-prior-knowledge"):
        seen = run([tools.find("curl"), "-sS", version, "-o", os.devnull, "-w", "%{http_code} %{redirect_url}", "--connect-to", f"::127.0.0.1:{plain}",
                    "http://www.example.org/a?b=c"])
        trial.check(f"{version}: status and target", seen, "308 https://www.example.org/a?b=c")
    answer = trial.curl("/a?b=c")
    trial.check("by https the backend answers", (answer.status, answer.text), (200, "one: 0 bytes\n"))


PAGE = "http/recipes.md"
NODE = ("Handfast", "Node.js", "ws", "curl")
RECIPES = {
    "application": (application, PAGE, "A web application with WebSocket and uploads", (*NODE, "websockets")),
    "health-checks": (health_checks, PAGE, "HTTP backends with health checks", NODE),
    "redirect": (redirect, PAGE, "A redirect from http to https", NODE),
}
