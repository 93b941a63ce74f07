"""Connections whose end is looked at closely: idle and busy ones, of both versions.

In: a port. Out: what was not as it should be when the proxy ended them, in words.
"""

import itertools
import time

from web import h1
from web.frames import Peer, headers, request

from .ledger import ANSWERED, LOST, Attempt

NO_LIMIT = (1 << 31) - 1
# Of a connection's end after the response that announces it, and far below `idle` (60 s) and the drain's limit.
AT_ONCE = 2.0
BUSY = 1000


def is_last(answer):
    """Whether a response announces the end of its connection."""
    return answer and answer.status == 200 and answer.header("connection") == "close"


class Witnesses:
    """Four connections that have had a request; two of them get a slow one, which is under way when the change comes."""

    numbers = itertools.count()

    def __init__(self, port, ledger):
        self.ledger, prefix = ledger, f"w{next(Witnesses.numbers)}"
        self.idle, self.busy = (h1.Connection(port, tls=True) for _ in range(2))
        self.idle_h2, self.busy_h2 = Peer(port), Peer(port)
        for number, connection in enumerate((self.idle, self.busy)):
            self.send(connection, f"{prefix}-{number}", 0)
            self.note(f"{prefix}-{number}", connection.response(10))
        for number, peer in enumerate((self.idle_h2, self.busy_h2), 2):
            peer.send(headers(1, request(f"/slow?ms=0&id={prefix}-{number}".encode(), authority=b"localhost")))
            self.note_h2(f"{prefix}-{number}", peer.wait(1, 10))
        self.names = [f"{prefix}-busy", f"{prefix}-busy-h2"]
        self.send(self.busy, self.names[0], BUSY)
        self.busy_h2.send(headers(3, request(f"/slow?ms={BUSY}&id={self.names[1]}".encode(), authority=b"localhost")))
        # Until both requests are under way; the log has them only when they have ended.
        self.busy_h2.next(time.monotonic() + 0.3)

    @staticmethod
    def send(connection, name, milliseconds):
        connection.send(f"GET /slow?ms={milliseconds}&id={name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def note(self, name, answer):
        self.ledger.add(Attempt(name, "GET", ANSWERED if answer and answer.complete else LOST, answer.status if answer else 0, str(answer)))
        return answer

    def note_h2(self, name, found):
        whole = found["end"] == "END_STREAM"
        self.ledger.add(Attempt(name, "GET", ANSWERED if whole else LOST, found["status"] or 0, str(found["end"])))
        return found

    def ended(self):
        """After a change that ends these connections: its faults."""
        faults, begun = [], time.monotonic()
        # The next request of an idle connection is served, and its response announces the end. The order may be complete before each thread
        # of the old process has it: a request that is faster is one more.
        for number in itertools.count():
            name = f"{self.names[0]}-last{number}"
            self.send(self.idle, name, 0)
            answer = self.note(name, self.idle.response(10))
            if is_last(answer):
                break
            if not answer or answer.status != 200 or time.monotonic() > begun + AT_ONCE:
                faults.append(f"the idle HTTP/1.1 connection received {answer}, expected 200 with Connection: close within {AT_ONCE:g} s")
                break
        while self.idle_h2.next(begun + 2 * AT_ONCE):
            pass
        self.ends_with_goaway("idle", self.idle_h2, 1, faults)
        self.is_announced("busy", self.names[0], self.busy, faults)
        found = self.note_h2(self.names[1], self.busy_h2.wait(3, 10))
        if found["status"] != 200 or found["end"] != "END_STREAM":
            faults.append(f"the busy HTTP/2 stream ended with {found}")
        while self.busy_h2.next(time.monotonic() + AT_ONCE):
            pass
        self.ends_with_goaway("busy", self.busy_h2, 3, faults)
        self.close()
        return faults

    def is_announced(self, kind, name, connection, faults):
        """The response to this request is the last one of its connection, and says so."""
        answer = self.note(name, connection.response(10))
        if not is_last(answer):
            faults.append(f"the {kind} HTTP/1.1 connection received {answer}, expected 200 with Connection: close")
        elif connection.response(AT_ONCE) or not connection.ended or connection.broken:
            faults.append(f"the {kind} HTTP/1.1 connection stayed open after Connection: close, {connection.broken}")

    @staticmethod
    def ends_with_goaway(kind, peer, last, faults):
        if peer.last_streams != [NO_LIMIT, last] or peer.goaway != 0 or not peer.ended or peer.broken:
            faults.append(f"the {kind} HTTP/2 connection: GOAWAY {peer.last_streams} with code {peer.goaway}, expected {[NO_LIMIT, last]} with 0; "
                          f"ended {peer.ended}, {peer.broken}")

    def stayed(self):
        """After a change that ends none of them: its faults."""
        faults = []
        answer = self.note(self.names[0], self.busy.response(10))
        found = self.note_h2(self.names[1], self.busy_h2.wait(3, 10))
        for kind, status in (("HTTP/1.1", answer and answer.status), ("HTTP/2", found["status"])):
            if status != 200:
                faults.append(f"the busy {kind} connection received {status}, expected 200")
        for number, connection in enumerate((self.idle, self.busy)):
            self.send(connection, f"{self.names[0]}-after{number}", 0)
            answer = self.note(f"{self.names[0]}-after{number}", connection.response(10))
            if not answer or answer.status != 200:
                faults.append(f"a kept HTTP/1.1 connection received {answer}")
        for number, (peer, stream) in enumerate(((self.idle_h2, 3), (self.busy_h2, 5))):
            peer.send(headers(stream, request(f"/slow?ms=0&id={self.names[1]}-after{number}".encode(), authority=b"localhost")))
            found = self.note_h2(f"{self.names[1]}-after{number}", peer.wait(stream, 10))
            if found["status"] != 200 or peer.last_streams:
                faults.append(f"a kept HTTP/2 connection received {found['status']}, GOAWAY {peer.last_streams}")
        self.close()
        return faults

    def close(self):
        for connection in (self.idle, self.busy, self.idle_h2, self.busy_h2):
            connection.close()
