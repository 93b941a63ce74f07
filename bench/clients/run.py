"""The program of scripts/http-clients: starts backend and front, runs the checks, prints the table."""

import argparse
import os
import tempfile
from pathlib import Path

from harness import machine, peers
from web import fronts, tools

from . import browser, checks, curl, neighbours, programs, python, rpc

# In this order: the modules register their checks when they are imported.
MODULES = (curl, python, programs, rpc, browser, neighbours)


def place_in(folder, name):
    """Backend, gRPC server and front: (Place, gRPC server)."""
    _, port = tools.client_backend(folder / "backend.log", page=Path(__file__).resolve().parent / "page.html")
    grpc_server, grpc_port = rpc.server()
    certificates = peers.make_certificates(folder)
    front = fronts.make(name, folder, certificates["ecdsa"])
    front.start([fronts.Route("web", port), fronts.Route("grpc", grpc_port, backend_h2=True)])
    web, grpc_route = front.routes
    trusted = str(certificates["ecdsa"].with_suffix(".crt"))
    return checks.Place(front, web.plain, web.tls, grpc_route.tls, trusted, folder, {"backend": port, "pem": certificates["ecdsa"]}), grpc_server


def main():
    parser = argparse.ArgumentParser(prog="scripts/http-clients", description=__doc__.split("\n")[0])
    parser.add_argument("--front", default="handfast", help="handfast (default; its program is $HANDFAST), haproxy or nginx")
    parser.add_argument("--allow-missing", action="store_true", help="clients that are not installed do not make the exit code 1")
    parser.add_argument("words", nargs="*", help="only checks that have one of these words in their client or name")
    options = parser.parse_args()
    os.environ.update({"no_proxy": "localhost,127.0.0.1", "NO_PROXY": "localhost,127.0.0.1"})
    with tempfile.TemporaryDirectory(prefix="handfast-clients.", ignore_cleanup_errors=True) as folder:
        grpc_server = None
        try:
            place, grpc_server = place_in(Path(folder), options.front)
            rows = checks.run(place, options.words)
        except machine.Failed as problem:
            print(f"http-clients: {problem}")
            return 2
        finally:
            machine.stop_all()
            if grpc_server:
                grpc_server.stop(0)
    return conclude(options, rows)


def conclude(options, rows):
    """The table and the exit code."""
    print(f"\n{'client':<10} {'check':<58} result")
    for client, name, result, reason in rows:
        print(f"{client:<10} {name:<58} {result}{f': {reason}' if reason else ''}")
    counts = {word: sum(row[2] == word for row in rows) for word in ("ok", "FAILED", "skipped")}
    print(f"\n{options.front}: {counts['ok']} passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    missing = counts["skipped"] and not options.allow_missing
    return 1 if counts["FAILED"] or missing else 0
