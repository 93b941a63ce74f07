"""An origin with random responses, and clients with random requests that check what they receive.

In: ports, a seed. Out: counts of what was received, and what no client may receive.

Content names the path, the variant, the user where it is personal, and the time: what a client receives must be one version of its own path from start to
end, its own variant, no page of another user, and not older than the origin permits.
"""

import hashlib
import http.client
import http.server
import random
import socket
import socketserver
import threading
import time
from collections import Counter
from dataclasses import dataclass

PATHS, USERS = 150, 24
# Cache-Control → seconds for which it permits a response to be served.
CONTROLS = {"max-age=1": 1, "max-age=2": 2, "max-age=60": 60, "s-maxage=1": 1, "max-age=1, stale-while-revalidate=2": 3, "no-cache": 0, "no-store, max-age=60": 0,
            "private, max-age=60": 0, "": 0}
PERSONAL = ("no-store, max-age=60", "private, max-age=60")
# The origin counts whole seconds, and a response is on its way for a moment.
SLACK = 1.3
# For this long an ETag has the same content.
EPOCH = 3


@dataclass
class Traits:
    """What the origin does for a path, always the same."""

    size: int
    is_chunked: bool
    control: str
    varies: bool
    has_tag: bool
    breaks: bool
    fails: bool

    @classmethod
    def of(cls, path):
        choose = random.Random(path.partition("?")[0])
        return cls(choose.choice([0, 1, 10, 5000, 65_536, 70_000, 300_000]), choose.random() < 0.3, choose.choice(list(CONTROLS)),
                   choose.random() < 0.3, choose.random() < 0.6, choose.random() < 0.15, choose.random() < 0.15)


def content(label, size):
    """The label, again and again."""
    text = f"{label};".encode()
    return (text * (size // len(text) + 1))[:size]


class Responder(http.server.BaseHTTPRequestHandler):
    """The origin's side of a connection."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        traits = Traits.of(self.path)
        if traits.fails and random.random() < 0.4:
            return self.respond(503, [], b"failed")
        kind = self.headers.get("X-Kind", "-") if traits.varies else "-"
        user = self.headers.get("X-User", "-") if traits.control in PERSONAL else "-"
        made = time.time() if not traits.has_tag else time.time() // EPOCH * EPOCH
        label = f"{self.path}|{kind}|{user}|{made:.3f}"
        fields = [("Cache-Control", traits.control)] if traits.control else []
        fields += [("Vary", "X-Kind")] if traits.varies else []
        if traits.has_tag:
            tag = f'"{hashlib.sha256(label.encode()).hexdigest()[:16]}"'
            fields.append(("ETag", tag))
            if self.headers.get("If-None-Match") == tag:
                return self.respond(304, fields)
        # A response to HEAD updates what is stored, but its content stays: so it has no label.
        if self.command == "GET":
            fields.append(("X-Label", label))
        return self.respond(200, fields, content(label, traits.size), traits)

    do_HEAD = do_GET

    def respond(self, status, fields, body=b"", traits=None):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        is_chunked = traits and traits.is_chunked
        if status != 304:
            self.send_header(*(("Transfer-Encoding", "chunked") if is_chunked else ("Content-Length", str(len(body)))))
        self.end_headers()
        if self.command == "HEAD" or status == 304:
            return
        pieces = [body[at:at + 40_000] for at in range(0, len(body), 40_000)]
        for number, piece in enumerate(pieces):
            if traits and traits.breaks and number + 1 == len(pieces) and random.random() < 0.4:
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            time.sleep(random.random() * 0.05 if random.random() < 0.1 else 0)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")


class Origin(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Listens on a port of its own."""

    daemon_threads, request_queue_size = True, 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Responder)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """The cache closes connections when it is killed, and those whose response it does not want."""


class Client(threading.Thread):
    """Requests one thing after the other, until it is told to stop. `seen`: statuses and words; `wrong`: what must not be."""

    def __init__(self, port, number, seed):
        super().__init__(daemon=True)
        self.port, self.user, self.random = port, f"user{number}", random.Random(seed * 1000 + number)
        self.seen, self.wrong, self.tags, self.connection, self.stops = Counter(), [], {}, None, False

    def run(self):
        while not self.stops:
            try:
                self.one()
            except (OSError, http.client.HTTPException) as problem:
                # Cut off, or the cache was ended and starts again: both may be.
                self.seen[type(problem).__name__] += 1
                time.sleep(0.05 if isinstance(problem, ConnectionRefusedError) else 0)
                if isinstance(problem, TimeoutError):
                    self.wrong.append(f"{self.user}: nothing came for 30 s")
                self.close()

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def one(self):
        choose = self.random
        path = f"/p{choose.randrange(PATHS)}" + (f"?q={choose.randrange(3)}" if choose.random() < 0.2 else "")
        fields = {"X-User": self.user, "X-Kind": choose.choice("ab")}
        method = "HEAD" if choose.random() < 0.1 else "GET"
        if choose.random() < 0.1:
            fields["Cache-Control"] = "no-cache"
        start = choose.randrange(70_000)
        part = (start, start + choose.randrange(5000)) if method == "GET" and choose.random() < 0.2 else None
        if part:
            fields["Range"] = f"bytes={part[0]}-{part[1]}"
        if choose.random() < 0.2 and (known := self.tags.get((path, fields["X-Kind"]))):
            fields["If-None-Match"] = known
        self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        asked = time.time()
        self.connection.request(method, path, headers=fields)
        answer = self.connection.getresponse()
        if choose.random() < 0.03:
            answer.read(100)
            self.seen["given up"] += 1
            return self.close()
        time.sleep(0.2 if choose.random() < 0.02 else 0)
        body, status = answer.read(), answer.getheader("Cache-Status") or ""
        self.seen[f"{answer.status} {status.split('; ')[1] if '; ' in status else status}"] += 1
        if problem := self.problem(path, method, fields, part, answer, body, asked):
            self.wrong.append(f"{method} {path} {fields}: {answer.status} {status} {answer.getheader('X-Label')}: {problem}")

    def problem(self, path, method, fields, part, answer, body, asked):
        """What is wrong with an answer; None if nothing is."""
        label, status, traits = answer.getheader("X-Label"), answer.getheader("Cache-Status") or "", Traits.of(path)
        if answer.status in (304, 502, 503) or method == "HEAD":
            return "content" if method == "HEAD" and body else None
        if label is None:
            return "no label"
        own_path, kind, user, made = label.split("|")
        whole = content(label, traits.size)
        if own_path != path or traits.varies and kind != fields["X-Kind"] or traits.control in PERSONAL and user != self.user:
            return "the page of another path, variant or user"
        if answer.status == 416:
            return None if part and part[0] >= traits.size else "a part that is there"
        if body != (whole[part[0]:part[1] + 1] if answer.status == 206 and part else whole):
            return f"other content, {len(body)} bytes"
        if answer.status == 200 and answer.getheader("ETag"):
            self.tags[(path, fields["X-Kind"])] = answer.getheader("ETag")
        # With a tag the time is that of its epoch, and a response to HEAD can make it fresh again.
        is_hit, age = "; hit" in status, asked - float(made)
        if is_hit and not traits.has_tag and age > CONTROLS[traits.control] * 2 + SLACK:
            return f"{age:.1f} s old"
        return None
