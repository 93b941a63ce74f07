"""Sends ways to write a guarded path to real servers, directly and through Handfast: what a server reads as the guarded path never reaches it.

In: the seed, the number of random paths, the program of Handfast. Out: a table by server and way, the paths that passed; exit code 0, 1 when one
passed or a server is missing, 2 when it could not run.
"""

import argparse
import http.client
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from harness import machine
from harness.machine import Failed, Process
from harness.peers import fill
from web import tools

from .ways import KNOWN, combinations

SERVERS = Path(__file__).resolve().parent / "servers"
# name → (programs or files that must exist, command; @WORDS@ are replaced).
BACKENDS = {
    "go": (["readings-go"], ["readings-go", "@PORT@"]),
    "flask": (["flask"], ["@VENV@/bin/python", "@SERVERS@/admin_flask.py", "@PORT@"]),
    "node": (["node"], ["node", "@SERVERS@/admin.js", "@PORT@"]),
    "php": (["php"], ["php", "-S", "127.0.0.1:@PORT@", "@SERVERS@/admin.php"]),
    "jetty": (["java", "jetty/Admin.class"], ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", "@TOOLS@/jetty:@TOOLS@/jetty/*", "Admin", "@PORT@"]),
    "nginx": (["nginx"], ["nginx", "-c", "@CONFIG@", "-p", "@FOLDER@"]),
}
# Actions of a route for /admin. `ignore-case` is for servers to which upper case is the same.
GUARDS = {"respond": "respond = 403", "allow-clients": 'allow-clients = "192.0.2.0/24"\nignore-case = true'}


def start(name, folder):
    """Starts a server: (process, port)."""
    lacking = [need for need in BACKENDS[name][0] if not tools.find(need)]
    if lacking:
        raise Failed(f"not installed: {', '.join(lacking)}; hint: run `scripts/install-missing garden`")
    folder = folder / name
    folder.mkdir()
    os.chmod(folder, 0o777)
    values = {"PORT": machine.free_port(), "SERVERS": SERVERS, "VENV": tools.VENV, "TOOLS": tools.TOOLS, "FOLDER": folder,
              "CONFIG": folder / "nginx.conf"}
    values["CONFIG"].write_text(fill((SERVERS / "nginx.conf").read_text(), values))
    words = [fill(word, values) for word in BACKENDS[name][1]]
    process = Process([tools.find(words[0]) or words[0], *words[1:]], None, folder / "output.log", SERVERS)
    machine.wait_for_port(values["PORT"], process)
    return process, values["PORT"]


def front(backends, folder, program):
    """Starts Handfast with a service for each server and guard: (process, {(server, guard): port})."""
    ports = {(name, guard): machine.free_port() for name in backends for guard in GUARDS}
    services = [
        f'[[service]]\nname = "{name}-{guard}"\nlisten = "127.0.0.1:{port}"\nclient-tls = false\nmode = "http"\n'
        f'backend = "127.0.0.1:{backends[name][1]}"\n[[service.route]]\npath = "/admin"\n{GUARDS[guard]}\n'
        for (name, guard), port in ports.items()
    ]
    config = folder / "handfast.toml"
    config.write_text('[admin]\nlisten = "off"\n[access-log]\nto = "off"\n' + "".join(services))
    process = Process([program, "proxy", "-c", config], None, folder / "handfast.log", folder)
    for port in ports.values():
        machine.wait_for_port(port, process)
    return process, ports


class Client:
    """A client that sends targets as they are."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def ask(self, target):
        """The status, and the word that the server answered with; redirects are not followed."""
        for _ in range(2):
            try:
                self.connection.putrequest("GET", target, skip_host=True, skip_accept_encoding=True)
                self.connection.putheader("Host", "localhost")
                self.connection.endheaders()
                response = self.connection.getresponse()
                return response.status, response.read()
            except (http.client.HTTPException, OSError):
                # The server closed it after the last response, or refused this one by closing.
                self.connection.close()
        return None, b""


def compare(name, direct, fronts, targets):
    """Sends each target to a server and through each guard: (statuses of those that it reads as guarded, paths that passed)."""
    clients = {guard: Client(port) for guard, port in fronts.items()}
    outcomes, passed = Counter(), []
    for target in targets:
        reads = b"ADMIN" in direct.ask(target)[1]
        for guard, client in clients.items():
            status, body = client.ask(target)
            outcomes[(reads, guard, status)] += 1
            if b"ADMIN" in body:
                passed.append((name, guard, target, status))
    return outcomes, passed


def cell(direct, fronts, target):
    """What a row of the table has for one server: its reading, and the answers of the guards."""
    reads = "guarded" if b"ADMIN" in direct.ask(target)[1] else "other"
    answers = {str(client.ask(target)[0]) for client in fronts}
    return f"{reads} {'/'.join(sorted(answers))}"


def main():
    parser = argparse.ArgumentParser(prog="scripts/path-readings", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3000, help="random paths for each server and guard")
    parser.add_argument("--program", help="the program of Handfast")
    words = parser.parse_args()
    processes = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            return run(words, Path(folder), processes)
    except (Failed, OSError) as reason:
        print(f"path-readings: {reason}", file=sys.stderr)
        return 2
    finally:
        for process in processes:
            process.stop()


def run(words, folder, processes):
    os.chmod(folder, 0o755)
    backends, missing = {}, []
    for name in BACKENDS:
        try:
            backends[name] = start(name, folder)
            processes.append(backends[name][0])
        except Failed as reason:
            missing.append(f"{name}: {reason}")
    process, ports = front(backends, folder, tools.handfast(words.program))
    processes.append(process)
    of = lambda name: {guard: ports[name, guard] for guard in GUARDS}
    print("| way | path | " + " | ".join(backends) + " |\n|---|---|" + "---|" * len(backends))
    for way, target in KNOWN.items():
        cells = [cell(Client(port), [Client(one) for one in of(name).values()], target) for name, (_, port) in backends.items()]
        print(f"| {way} | `{target}` | " + " | ".join(cells) + " |", flush=True)
    targets, passed = [*KNOWN.values(), *combinations(words.seed, words.count)], []
    for name, (_, port) in backends.items():
        outcomes, more = compare(name, Client(port), of(name), targets)
        passed += more
        guarded = {f"{guard} {status}": count for (reads, guard, status), count in sorted(outcomes.items(), key=str) if reads}
        print(f"{name}: reads as guarded, through Handfast: {guarded}", flush=True)
    for row in passed:
        print("PASSED", *row)
    for row in missing:
        print("missing", row)
    print(f"{len(passed)} passed of {len(targets) * len(GUARDS) * len(backends)}, seed {words.seed}")
    return 1 if passed or missing else 0
