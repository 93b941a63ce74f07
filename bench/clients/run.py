"""The program of scripts/http-clients: starts backend and front, and runs the checks."""

import argparse
import os
from pathlib import Path

from harness import peers, rows
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
    return rows.main("http-clients", lambda found, folder: check(found, folder, options))


def check(found, folder, options):
    place, grpc_server = place_in(folder, options.front)
    try:
        checks.run(found, place, options.words)
    finally:
        grpc_server.stop(0)
    if found.counts["skipped"] and not options.allow_missing:
        found.row("FAILED", "every client is installed", "no; hint: `scripts/install-missing garden`, or --allow-missing")
