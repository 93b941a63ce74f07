"""The program of scripts/http-changes: for each change a proxy under load, a row of the table, the exit code."""

import argparse
import os
import tempfile
import time
from pathlib import Path

from harness import machine
from harness.machine import Failed

from . import ledger, scenes, subject
from .load import Http1, Http2, WebSocket, WebSocketH2


class Place:
    """A proxy, the clients that load it, and what they counted."""

    def __init__(self, folder):
        self.folder, self.ledger, self.clients = folder, ledger.Ledger(), []
        self.subject = subject.Subject(folder)

    def begin(self):
        """Busy and pausing clients, of each version; some make a connection for each request."""
        web, other, book = self.subject.web, self.subject.other, self.ledger
        self.clients = [
            *(Http1(web, book) for _ in range(3)),
            *(Http1(port, book, pause=0.2) for port in (web, web, other, other)),
            *(Http1(web, book, once=True) for _ in range(3)),
            *(Http2(port, book) for port in (web, web, other)),
            *(WebSocket(port, book) for port in (web, web, web, other)),
            *(WebSocketH2(port, book) for port in (web, other)),
        ]
        for client in self.clients:
            client.start()

    def end(self):
        """Stops the clients, then the proxy, so that the log is complete."""
        for client in self.clients:
            client.done.set()
        for client in self.clients:
            client.join(60)
        self.subject.stop()

    is_running = staticmethod(subject.is_running)

    def clients_of(self, port):
        return [client for client in self.clients if client.port == port]

    def open_tunnels(self):
        return [tunnel for tunnel in self.ledger.tunnels if not tunnel.ended]

    def nothing_ended(self):
        """Faults: connections of clients that the proxy ended."""
        faults = [f"connections that the change must not end: {dict(self.ledger.ended)}"] if self.ledger.ended else []
        return faults + self.tunnels_stayed()

    def tunnels_stayed(self):
        """Faults: tunnels that ended."""
        return [f"{tunnel} must not end" for tunnel in self.ledger.tunnels if tunnel.ended]

    def tunnels_were_cut(self, cause):
        """Faults: tunnels that ended, and not for that cause, by their lines in the log."""
        ends = {}
        for line in self.subject.lines():
            if "request" not in line:
                ends[line.get("client")] = line.get("reason", {}).get("cause")
        over = [tunnel for tunnel in self.ledger.tunnels if tunnel.ended]
        wrong = [(tunnel, ends.get(tunnel.client)) for tunnel in over]
        faults = [f"{tunnel} ended with {found}, expected {cause}" for tunnel, found in wrong if found != cause]
        return faults if over else ["no tunnel was cut at the drain's limit"]


def run(name, change):
    """The row of one change."""
    with tempfile.TemporaryDirectory(prefix="handfast-changes.", ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder))
        try:
            place.begin()
            scenes.load()
            before = place.ledger.echoed()
            faults = change(place)
            during = place.ledger.echoed() - before
            scenes.load()
        finally:
            place.end()
        faults += [f"client {client.number}: {client.failure!r}" for client in place.clients if client.failure]
        faults += [f"silent: {tunnel}" for tunnel in place.ledger.tunnels if tunnel.unanswered and not tunnel.ended]
        spares = scenes.is_unavoidable if change is scenes.backend_death else ledger.spares_nothing
        found = ledger.judge(place.ledger, place.subject.lines(), spares)
        messages = f"{before}/{during}/{place.ledger.echoed() - before - during}"
        return found, faults + found.faults, messages, place.ledger.ended


def main():
    parser = argparse.ArgumentParser(prog="scripts/http-changes", description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", help="only changes that have one of these words in their name")
    options = parser.parse_args()
    os.environ.update({"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"})
    rows, begun = [], time.monotonic()
    try:
        for name, change in scenes.SCENES.items():
            if not options.words or any(word in name for word in options.words):
                rows.append((name, *run(name, change)))
                for fault in rows[-1][2][:10]:
                    print(f"{name}: {fault}", flush=True)
    except Failed as problem:
        print(f"http-changes: {problem}")
        return 2
    finally:
        machine.stop_all()
    return conclude(rows, time.monotonic() - begun)


def conclude(rows, seconds):
    """The table and the exit code."""
    print(f"\n{'change':<20} {'sent':>6} {'200':>6} {'other':>10} {'closed':>6} {'GOAWAY':>6} {'lost':>4} {'logged':>6} {'messages':>15}  verdict")
    for name, found, faults, messages, _ in rows:
        other = ", ".join(f"{count}× {status}" for status, count in sorted(found.other.items(), key=str)) or "0"
        print(f"{name:<20} {found.sent:>6} {found.good:>6} {other:>10} {found.again['closed']:>6} {found.again['goaway']:>6} {found.lost:>4} "
              f"{found.logged:>6} {messages:>15}  {f'{len(faults)} FAULTS' if faults else 'ok'}")
    for name, _, _, _, ended in rows:
        if ended:
            print(f"{name}: connections ended by the proxy: {', '.join(f'{count} {kind}' for kind, count in sorted(ended.items()))}")
    print(f"\nclosed: requests on connections that were just closed, without a byte back and not processed (RFC 9112 §9.3.1); GOAWAY: beyond the\n"
          f"last stream that it named. Clients send both again. messages: WebSocket messages before/during/after. {seconds:.0f} s")
    return 1 if any(faults for _, _, faults, _, _ in rows) else 0
