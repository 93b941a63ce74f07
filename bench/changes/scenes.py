"""The changes, one function each.

In: a place with load on it. Out: faults in words; the requests are judged by their ledger.
"""

import os
import signal
import ssl
import time

from harness.machine import wait_until
from web import h1

from .ledger import LOST
from .subject import DRAIN
from .witness import Witnesses

# Load before, between and after changes, in seconds: it is what is measured, so the time is not a wait for something.
SETTLED, BETWEEN = 1.5, 0.5


def load(seconds=SETTLED):
    time.sleep(seconds)


def reloads(place):
    """Ten reloads, half of them by SIGHUP."""
    witnesses = Witnesses(place.subject.web, place.ledger)
    for number in range(10):
        if number % 2:
            place.subject.reload()
        else:
            place.subject.timeout += 1
            place.subject.write()
            os.kill(place.subject.pids[-1], signal.SIGHUP)
        load(BETWEEN)
    return witnesses.stayed() + place.nothing_ended()


def upgrades(place):
    """Three live upgrades: each old process drains, and its tunnels live until the drain's limit."""
    faults = []
    for _ in range(3):
        witnesses = Witnesses(place.subject.web, place.ledger)
        old, before = place.open_tunnels(), place.subject.pids[-1]
        place.subject.upgrade()
        counts = [tunnel.echoed for tunnel in old]
        faults += witnesses.ended()
        faults += [f"a tunnel from before the upgrade went quiet: {tunnel}" for tunnel, count in zip(old, counts) if tunnel.echoed == count]
        wait_until("the old process to end", lambda: not place.is_running(before), DRAIN + 10)
        load(BETWEEN)
    return faults + place.tunnels_were_cut("stopped")


def renewal(place):
    """The certificate's file is replaced."""
    witnesses = Witnesses(place.subject.web, place.ledger)
    before = certificate(place.subject.web)
    place.subject.renew(place.folder)
    wait_until("the new certificate to be served", lambda: certificate(place.subject.web) != before)
    load()
    return witnesses.stayed() + place.nothing_ended()


def certificate(port):
    """What a new connection is shown."""
    connection = h1.Connection(port, tls=True)
    try:
        return connection.socket.getpeercert(True)
    except ssl.SSLError:
        return None
    finally:
        connection.close()


def backend_death(place):
    """One of two backends is killed and started again, twice."""
    for _ in range(2):
        place.subject.backends[0].kill()
        load()
        place.subject.backends[0].start()
        # Longer than `backend-retry`, so that it is used again.
        load(2)
    dead = f"127.0.0.1:{place.subject.backends[0].port}"
    lines = place.subject.lines()
    used = {line.get("backend") for line in lines if line.get("status") == 200}
    faults = [] if len(used) == 2 else [f"the backends that served are {used}, expected two"]
    ends = {line["client"]: line.get("backend") for line in lines if line.get("status") == 101}
    over = [tunnel for tunnel in place.ledger.tunnels if tunnel.ended]
    return faults + [f"{tunnel} ended, and its backend {ends.get(tunnel.client)} lived" for tunnel in over if ends.get(tunnel.client) != dead]


def is_unavoidable(attempt, line):
    """Whether the backend's death had to fail this request: part of the response was sent, or the backend may have processed what must not be done
    twice."""
    if attempt.outcome == LOST:
        return line.get("reason", {}).get("side") == "backend"
    return line["status"] in (502, 504) and (attempt.method not in ("GET", "HEAD") or not line.get("reused"))


def removal(place):
    """A service is removed by a reload; the other one goes on."""
    witnesses, stays = Witnesses(place.subject.other, place.ledger), Witnesses(place.subject.web, place.ledger)
    for client in place.clients_of(place.subject.other):
        client.stopping.set()
    place.subject.services = ["web"]
    place.subject.reload()
    faults = witnesses.ended() + stays.stayed()
    load()
    return faults + place.tunnels_stayed()


def stop(place):
    """TERM: what is under way is completed, tunnels live until the drain's limit."""
    witnesses, tunnels = Witnesses(place.subject.web, place.ledger), place.open_tunnels()
    for client in place.clients:
        client.stopping.set()
    place.subject.ask_to_stop()
    counts = [tunnel.echoed for tunnel in tunnels]
    faults = witnesses.ended()
    faults += [f"a tunnel went quiet at the stop: {tunnel}" for tunnel, count in zip(tunnels, counts) if tunnel.echoed == count]
    wait_until("the proxy to end", place.subject.has_ended, DRAIN + 10)
    code = place.subject.process.process.returncode
    return faults + place.tunnels_were_cut("stopped") + ([f"the exit code is {code}, expected 0"] if code else [])


SCENES = {
    "reload ×10": reloads,
    "upgrade ×3": upgrades,
    "certificate renewed": renewal,
    "backend killed ×2": backend_death,
    "service removed": removal,
    "TERM": stop,
}
