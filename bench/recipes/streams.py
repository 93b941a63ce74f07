"""Recipes for connections that stay open: events of a server, WebSocket, gRPC.

In: a trial. Out: its rows.
"""

import contextlib
import json

from harness.machine import Failed, Process, wait_until
from web import tools

from .page import changed
from .programs import MODULES, PYTHON
from .trial import HERE, client, free_port, run


def server_sent_events(trial):
    """Each event is sent after the one before was received: a response that is kept until it ends would never show the first one."""
    port = free_port()
    trial.node(port, "events.js")
    # The page's stream may be silent for ten minutes; other streams end sooner here than after the minute of the page.
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{port}"}, '\n[service.http]\nbody-timeout = "1s"\n')
    for version in ("1.1", "2"):
        with open_stream(trial, version, "/events") as stream:
            lines = [say(trial, stream, f"event {number}") for number in range(3)]
            trial.check(f"HTTP/{version}: each event arrives while the response is open", lines, [f"data: event {n}" for n in range(3)])
            line = say(trial, stream, "later", after=3000)
            trial.check(f"HTTP/{version}: an event after a silence that is longer than the body-timeout of the service", line, "data: later")
        with open_stream(trial, version, "/other") as stream:
            end = stream.wait(30)
            trial.check(f"HTTP/{version}: without the route the silent stream is cut (exit code of curl)", end, 56 if version == "1.1" else 92)
    lines = trial.log(lambda line: line.get("path") == "/other" and "reason" in line, 2)
    reasons = sorted({f"{line['reason']['side']} {line['reason']['cause']}" for line in lines})
    trial.check("the log has the cause", reasons, ["backend body-timeout"])
    event_source(trial)


def event_source(trial):
    """A client that connects again where its stream was cut, and requests what it missed."""
    words = [tools.find("node"), trial.folder / "client.mjs", f"https://localhost:{trial.port}/other", "3"]
    (trial.folder / "client.mjs").write_text((HERE / "events-client.mjs").read_text())
    (trial.folder / "node_modules").symlink_to(MODULES)
    log = trial.folder / "client.log"
    source = Process(["env", f"NODE_EXTRA_CA_CERTS={trial.ca}", *words], None, log, trial.folder)
    source.wait_for("open\n")
    for number, after in enumerate((0, 2500, 0)):
        post(trial, f"number {number}", after)
        wait_until(f"event {number}", lambda wanted=f"number {number}\n": wanted in log.read_text(), 30, source)
    source.wait(30)
    seen = log.read_text().splitlines()
    trial.check("EventSource: all events, after a cut too", [line.split(" ", 1)[1] for line in seen if line != "open"],
                [f"number {n}" for n in range(3)])
    trial.check("EventSource: it connected again", seen.count("open") > 1)


@contextlib.contextmanager
def open_stream(trial, version, path):
    """A curl that shows what it receives at once, after the first line, which the server sends when the stream is open."""
    with client(trial.curl_words("-N", f"--http{version}", trial.url(path)), text=True) as curl:
        line = curl.stdout.readline()
        if line != ": open\n":
            raise Failed(f"open {path}: expected `: open`, received {line!r}")
        yield curl


def post(trial, text, after=0):
    answer = trial.curl(f"/say?after={after}", "--data-binary", text)
    if answer.status != 200:
        raise Failed(f"send an event: status {answer.status}")


def say(trial, stream, text, after=0):
    """Sends an event, and returns its line as the open client receives it."""
    post(trial, text, after)
    for line in stream.stdout:
        if line.startswith("data:"):
            return line.strip()
    raise Failed(f"receive event `{text}`: the stream ended")


def websocket(trial):
    ports = {"one": free_port(), "two": free_port()}
    servers = {name: trial.node(port, "chat.js", name, MODULES) for name, port in ports.items()}
    (trial.folder / "sticky.key").write_text(run(["openssl", "rand", "-hex", "32"]))
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{ports['one']}", "127.0.0.1:8081": f"127.0.0.1:{ports['two']}"})
    seen = chat(trial)
    cookie, server = seen.pop("cookie"), seen.pop("server")
    trial.check("the response that opens a WebSocket sets the cookie", bool(cookie and cookie.startswith("room=")))
    expected = {
        "subprotocol": "chat.v2", "servers of the others": [server], "from the first": ["hello"] * 6, "from another": [100_000],
        "ping of the client": True, "ping of the server": "pong are you there", "close of a client": "left 4002 tired",
        "close of the server": [4001, "good bye"],
    }
    for name, value in expected.items():
        trial.check(name, seen.get(name), value)
    again = {chat(trial, cookie)["server"] for _ in range(4)}
    trial.check("later clients with the cookie are at the same server", again, {server})
    page = {trial.curl("/", "-b", cookie).text.strip() for _ in range(4)}
    trial.check("requests for pages with the cookie too", page, {server})
    servers[server].stop()
    moved = chat(trial, cookie)
    other = next(name for name in ports if name != server)
    trial.check("without that server they are at the other one", moved["server"], other)
    trial.check("which sets its cookie", bool(moved["cookie"] and moved["cookie"] != cookie))
    line = trial.log(lambda line: line.get("status") == 101)[0]
    trial.check("the log has status 101", (line["protocol"], line["backend"]), ("http/1.1", f"127.0.0.1:{ports[server]}"))


def chat(trial, *cookie):
    return json.loads(run([PYTHON, HERE / "chat_client.py", f"wss://localhost:{trial.port}/chat", trial.ca, *cookie]))


def grpc(trial):
    ports = {"one": free_port(), "two": free_port()}
    servers = {name: trial.start([PYTHON, HERE / "rpc_server.py", port, name], port, name) for name, port in ports.items()}
    trial.authority.issue("grpc", ["localhost"])
    trial.handfast({"127.0.0.1:50051": f"127.0.0.1:{ports['one']}", "127.0.0.1:50052": f"127.0.0.1:{ports['two']}"})
    program = trial.folder / "client.py"
    program.write_text(changed(trial.section.name, trial.section.block("python"), {"localhost:443": f"localhost:{trial.port}"}))

    def call():
        calls, count, echo = run([PYTHON, program], folder=trial.folder).splitlines()
        return sorted(set(json.loads(calls.replace("b'", '"').replace("'", '"')))), count, echo

    streams = ("[b'0', b'1', b'2', b'3', b'4']", "[b'a', b'b', b'c']")
    trial.check("the calls of one connection go to both servers", call(), (["hello from one", "hello from two"], *streams))
    servers["two"].stop()
    trial.check("with one server stopped all calls are answered", call(), (["hello from one"], *streams))
    trial.proxy.process.wait_for(f"backend 127.0.0.1:{ports['two']} is marked down for 10s after 3 failures in a row")
    trial.check("and the log reports the other one", True)
    servers["one"].stop()
    failed = run([PYTHON, program], good=(1,), folder=trial.folder, joined=True)
    trial.check("without servers a call ends", [word in failed for word in ("StatusCode.UNAVAILABLE", "status 502 from the proxy")], [True] * 2)


RECIPES = {
    "events": (server_sent_events, "http/recipes-streams.md", "Server-sent events", ("Handfast", "Node.js", "eventsource", "curl")),
    "websocket": (websocket, "http/recipes-streams.md", "A WebSocket chat on two servers", ("Handfast", "Node.js", "ws", "websockets", "curl")),
    "grpc": (grpc, "http/recipes.md", "gRPC call by call", ("Handfast", "grpcio")),
}
