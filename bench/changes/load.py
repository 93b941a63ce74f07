"""Clients that count: HTTP/1.1, HTTP/2 and WebSocket over TLS, each in a thread, until they are stopped.

In: a port and a ledger. Out: entries of the ledger. A request that the proxy has surely not taken is sent again, as real clients do.
"""

import itertools
import random
import threading
import time

from clients.checks import pattern
from web import h1
from web.frames import DATA, END_STREAM, WINDOW_UPDATE, Peer, frame, headers, request

from .ledger import ANSWERED, CLOSED, GOAWAY, LOST, UNCONNECTED, Attempt, Tunnel

# Longer than any response takes: one that has not come by then is lost.
QUIET = 15.0
AGAIN = 5
REFUSED_STREAM = 7


class Client(threading.Thread):
    """What all clients have: a number, a port, the ledger. `pause`: most seconds between two requests."""

    numbers = itertools.count()

    def __init__(self, port, ledger, pause=0.0):
        super().__init__(daemon=True)
        self.number, self.port, self.ledger, self.pause = next(Client.numbers), port, ledger, pause
        # Set when the proxy stops: connections that it refuses are expected then.
        self.stopping = threading.Event()
        self.done, self.random = threading.Event(), random.Random(self.number)
        self.names = itertools.count()
        self.failure = None

    def run(self):
        try:
            self.work()
        except Exception as problem:  # a fault of the client must not look like a quiet one
            self.failure = problem

    def next_request(self):
        """(name, method, path, content)."""
        name = f"c{self.number}-{next(self.names)}"
        kind = self.random.random()
        if kind < 0.15:
            return name, "POST", f"/sum?id={name}", pattern(self.random.randrange(1, 3000))
        if kind < 0.2:
            return name, "GET", f"/slow?ms={self.random.randrange(5, 150)}&id={name}", b""
        return name, "GET", f"/bytes?n={self.random.randrange(3000)}&id={name}", b""

    def note(self, name, method, outcome, status=0, why=""):
        self.ledger.add(Attempt(name, method, outcome, status, why))

    def connect(self, make):
        """A new connection; None, with an entry, when there is none."""
        try:
            return make()
        except OSError as problem:
            outcome = UNCONNECTED if self.stopping.is_set() else LOST
            self.note(f"c{self.number}-connect{next(self.names)}", "connect", outcome, why=f"connect: {problem}")
            # A front that is gone would be asked without end.
            self.done.wait(0.1)
            return None


def is_right(path, content, status, body):
    """Whether a response has the content that its request asks for."""
    if status != 200:
        return True
    if path.startswith("/bytes"):
        return body == pattern(int(path.partition("n=")[2].partition("&")[0]))
    return body == b"slow" if path.startswith("/slow") else f'"length":{len(content)},'.encode() in body


class Http1(Client):
    """One request after the other on a kept connection; `once`: on a new one each."""

    def __init__(self, *words, once=False, **more):
        super().__init__(*words, **more)
        self.once, self.connection, self.served = once, None, 0

    def work(self):
        while not self.done.is_set():
            # The same one under another name, until it is not in doubt.
            _, method, path, content = self.next_request()
            for _ in range(AGAIN):
                name = f"c{self.number}-{next(self.names)}"
                if self.attempt(name, method, path.partition("id=")[0] + f"id={name}", content):
                    break
            self.done.wait(self.random.random() * self.pause)
        if self.connection:
            self.connection.close()

    def attempt(self, name, method, path, content):
        """Sends a request once. False: it is to be sent again."""
        if not self.connection:
            self.connection, self.served = self.connect(lambda: h1.Connection(self.port, tls=True)), 0
            if not self.connection:
                return True
        length = f"Content-Length: {len(content)}\r\n" if method == "POST" else ""
        close = "Connection: close\r\n" if self.once else ""
        self.connection.send(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{length}{close}\r\n".encode() + content)
        answer = self.connection.response(QUIET)
        if answer and answer.complete:
            right = is_right(path, content, answer.status, answer.body)
            self.note(name, method, ANSWERED if right else LOST, answer.status, "" if right else f"wrong content, {len(answer.body)} bytes")
            self.served += 1
            if (answer.header("connection") or "").lower() == "close":
                self.end(None if self.once else "HTTP/1.1, announced")
            return True
        is_race = not answer and self.connection.ended and not self.connection.broken and self.served
        why = f"after {self.served} others, {'ended' if self.connection.ended else 'silent'}, {self.connection.broken}, {answer}"
        self.note(name, method, CLOSED if is_race else LOST, why=why)
        self.end("HTTP/1.1, idle")
        return not is_race

    def end(self, kind):
        self.connection.close()
        self.connection = None
        if kind:
            self.ledger.connection_ended(kind)


class Http2(Client):
    """A number of streams at the same time on one connection."""

    def __init__(self, *words, streams=8, **more):
        super().__init__(*words, **more)
        self.streams, self.waiting = streams, []

    def work(self):
        while not self.done.is_set():
            peer = self.connect(lambda: Peer(self.port))
            if peer:
                # One window for all that a run receives.
                peer.send(frame(WINDOW_UPDATE, 0, 0, (1 << 30).to_bytes(4, "big")))
                self.serve(peer)
                peer.close()

    def serve(self, peer):
        """Requests until the proxy says goodbye or the client is done."""
        numbers, open_ones = itertools.count(1, 2), {}
        while True:
            is_leaving = bool(peer.last_streams) or self.done.is_set()
            while not is_leaving and len(open_ones) < self.streams:
                self.begin(peer, next(numbers), open_ones)
            if not open_ones:
                break
            if not peer.next(time.monotonic() + QUIET):
                break
            for stream in [stream for stream in open_ones if peer.streams.get(stream, {}).get("end")]:
                self.finish(peer.streams.pop(stream), *open_ones.pop(stream))
            for stream in [stream for stream in open_ones if peer.last_streams and stream > peer.last_streams[-1]]:
                self.again(*open_ones.pop(stream))
        for name, method, _, _ in open_ones.values():
            why = f"its stream did not end: {'ended' if peer.ended else 'silent'}, {peer.broken}, GOAWAY {peer.last_streams}"
            self.note(name, method, LOST, why=why)
        if peer.last_streams or peer.ended:
            self.ledger.connection_ended("HTTP/2, announced" if peer.last_streams else "HTTP/2, without GOAWAY")

    def begin(self, peer, stream, open_ones):
        name, method, path, content = self.waiting.pop() if self.waiting else self.next_request()
        open_ones[stream] = name, method, path, content
        more = [(b"content-length", str(len(content)).encode())] if content else []
        whole = headers(stream, request(path.encode(), method.encode(), b"localhost", more), end=not content)
        peer.send(whole + (frame(DATA, END_STREAM, stream, content) if content else b""))

    def finish(self, found, name, method, path, content):
        if found["end"] == "END_STREAM":
            right = is_right(path, content, found["status"], found["body"])
            self.note(name, method, ANSWERED if right else LOST, found["status"], "" if right else f"wrong content, {len(found['body'])} bytes")
        elif found["end"] == f"RST_STREAM {REFUSED_STREAM}":
            self.again(name, method, path, content)
        else:
            self.note(name, method, LOST, why=found["end"])

    def again(self, name, method, path, content):
        self.note(name, method, GOAWAY)
        fresh = f"c{self.number}-{next(self.names)}"
        self.waiting.append((fresh, method, path.partition("id=")[0] + f"id={fresh}", content))


class WebSocket(Client):
    """Messages there and back, one at a time; another tunnel when one has ended."""

    def work(self):
        while not self.done.is_set():
            connection = self.connect(self.open)
            if connection:
                self.exchange(connection)
                connection.close()

    def open(self):
        return h1.websocket(self.port, QUIET)

    def exchange(self, connection):
        tunnel = Tunnel(self.port, connection.socket.getsockname()[1])
        with self.ledger.lock:
            self.ledger.tunnels.append(tunnel)
        while not self.done.is_set():
            text = b"%06d" % tunnel.echoed
            # Binary, masked with zeros.
            self.put(connection, bytes([0x82, 0x80 | len(text), 0, 0, 0, 0]) + text)
            found = self.take(connection, 2 + len(text))
            if found != bytes([0x82, len(text)]) + text:
                tunnel.unanswered, tunnel.ended = True, self.has_ended(connection)
                tunnel.why = f"{'ended' if tunnel.ended else 'silent'}, {connection.broken}, {found}"
                return
            tunnel.echoed += 1
            self.done.wait(0.01)

    def put(self, connection, data):
        connection.send(data)

    def take(self, connection, length):
        """That number of bytes; fewer when the tunnel has ended, or is silent."""
        deadline = time.monotonic() + QUIET
        while len(connection.buffer) < length and connection.fill(deadline):
            pass
        found, connection.buffer = connection.buffer[:length], connection.buffer[length:]
        return found

    def has_ended(self, connection):
        return connection.ended


class WebSocketH2(WebSocket):
    """The same in a stream of HTTP/2 (RFC 8441)."""

    def open(self):
        peer = Peer(self.port)
        fields = [(b":method", b"CONNECT"), (b":protocol", b"websocket"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/ws"),
                  (b"sec-websocket-version", b"13")]
        peer.send(headers(1, fields, end=False))
        deadline = time.monotonic() + QUIET
        while not peer.streams.get(1, {}).get("status") and peer.next(deadline):
            pass
        if peer.streams.get(1, {}).get("status") != 200:
            raise ConnectionError(f"the extended CONNECT was answered with {peer.streams.get(1)}, GOAWAY {peer.last_streams}")
        return peer

    def put(self, connection, data):
        connection.send(frame(DATA, 0, 1, data))

    def take(self, connection, length):
        deadline, stream = time.monotonic() + QUIET, connection.streams[1]
        while len(stream["body"]) < length and not stream["end"] and connection.next(deadline):
            pass
        found, stream["body"] = stream["body"][:length], stream["body"][length:]
        return found

    def has_ended(self, connection):
        return connection.ended or bool(connection.streams[1]["end"])
