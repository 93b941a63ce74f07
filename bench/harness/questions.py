"""Requests that are sent to two proxies, one after the other, and the comparison of their results.

In: files `.requests`, as `Play` describes them. Out: for each request, what the client and the backend received.
"""

import contextlib
import hashlib
import http.client
import json
import socket
import ssl
from collections import Counter
from urllib.parse import urljoin, urlsplit

from .question_backends import until

PATIENCE = 10  # seconds

# Fields of responses that depend on the connection, the time or the program: they are not compared.
SKIPPED_FIELDS = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "x-backend", "x-received"}
# The old program and Handfast have different error pages: these items of them are not compared.
SKIPPED_OF_PAGES = {"content", "field cache-control", "field content-type"}
# How far the number of requests of a backend may differ: each of the two workers of Handfast has a separate round robin.
ROUND_ROBIN_TOLERANCE = 2


class Play:
    """A file `.requests`. Each line is one of these; `#` begins a comment.

    `backends ADDRESS…`                  what answers: HOST:PORT, or a path
    `pem FILE NAME…`                     a certificate and its key
    `pair CHAIN KEY NAME…`               the same, in two files
    `authority FILE`                     the certificate of the authority of all of these
    `revoked FILE`                       its list, which is empty
    `file PATH TEXT`                     a text for both programs; `\\n` begins a new line
    `refused N`                          the number of services that `import` refuses
    `differs ITEM: REASON`               an item that differs, or `all`; after a request, in that one alone
    `METHOD URL OPTION… | FIELD | …`     a request; options: `at=ADDRESS` `from=ADDRESS` `shows=NAME` `proxy=ADDRESS` `content=TEXT`
                                         `bytes=N` `x=N` (N times) `session` (repeated with its cookie) `hash` (all by one backend) `websocket`
    """

    def __init__(self, path):
        self.backends, self.files, self.requests, self.refused, self.differs = [], [], [], 0, {}
        for line in path.read_text().splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "backends":
                self.backends += rest.split()
            elif word in ("pem", "pair", "authority", "revoked", "file"):
                self.files.append((word, rest.split(" ", 1) if word == "file" else rest.split()))
            elif word == "refused":
                self.refused = int(rest)
            elif word == "differs":
                item, _, reason = rest.partition(": ")
                (self.requests[-1].differs if self.requests else self.differs)[item] = reason
            elif word and not word.startswith("#"):
                self.requests.append(Request(line))


class Request:
    def __init__(self, line):
        head, *fields = [part.strip() for part in line.split(" | ")]
        self.method, self.url, *options = head.split()
        self.options = dict(option.partition("=")[::2] for option in options)
        self.fields = [tuple(field.split(": ", 1)) for field in fields]
        self.differs, self.line = {}, line.strip()
        parts = urlsplit(self.url)
        self.tls, self.name = parts.scheme == "https", parts.hostname
        self.host, self.port = parts.netloc, parts.port or (443 if self.tls else 80)
        self.target = self.url.split(parts.netloc, 1)[1] or "/"
        self.where = (self.options.get("at", "127.0.0.1"), self.port)

    def content(self):
        if "bytes" in self.options:
            return b"x" * int(self.options["bytes"])
        return self.options.get("content", "").encode()

    def seen(self):
        """What a client sees of it, and what its backend received: item → text."""
        try:
            if "session" in self.options:
                return self._session()
            if "x" in self.options:
                return self._balance([self._once() for _ in range(int(self.options["x"]))])
            return self._once()
        except (OSError, http.client.HTTPException):
            return {"status": "not served"}

    def _session(self):
        first = self._once()
        cookie = first.get("field set-cookie", "").split(";")[0]
        later = [self._once([("Cookie", cookie)])["backend"] for _ in range(4)]
        return first | {"backend": "", "content": "", "cookie": cookie.split("=")[0], "stays": str(set(later) == {first["backend"]})}

    def _balance(self, all_seen):
        used = Counter(seen.get("backend") for seen in all_seen)
        if "hash" in self.options:
            used = f"{len(used)} of them"
        statuses = Counter(seen["status"] for seen in all_seen)
        return {"status": ", ".join(f"{status} × {times}" for status, times in statuses.items()), "backends": used}

    def _once(self, more=()):
        source = (self.options["from"], 0) if "from" in self.options else None
        with socket.create_connection(self.where, timeout=PATIENCE, source_address=source) as stream:
            if "proxy" in self.options:
                stream.sendall(f"PROXY TCP4 {self.options['proxy']} 192.0.2.1 40000 {self.port}\r\n".encode())
            by = {}
            if self.tls:
                stream = self._handshaken(stream)
                by["certificate"] = hashlib.sha256(stream.getpeercert(True)).hexdigest()
            connection = http.client.HTTPConnection(self.host)
            connection.sock = stream
            connection.putrequest(self.method, self.target, skip_host=True, skip_accept_encoding=True)
            content = self.content()
            ours = [("Host", self.host)] if not any(name.lower() == "host" for name, _ in self.fields) else []
            if content:
                ours.append(("Content-Length", str(len(content))))
            if "websocket" in self.options:
                ours += [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw=="),
                         ("Sec-WebSocket-Version", "13")]
            for name, value in [*ours, *self.fields, *more]:
                connection.putheader(name, value)
            connection.endheaders()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                stream.sendall(content)
            return self._answer(connection.getresponse(), stream) | by

    def _handshaken(self, stream):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if "shows" in self.options:
            context.load_cert_chain(f"/etc/questions/{self.options['shows']}.pem")
        return context.wrap_socket(stream, server_hostname=None if self.name[0].isdigit() else self.name)

    def _answer(self, response, stream):
        fields = {}
        for name, value in response.getheaders():
            fields.setdefault(name.lower(), []).append(value)
        seen = {"status": str(response.status), "backend": ", ".join(fields.get("x-backend", ["none"]))}
        for name, values in fields.items():
            if name == "location":
                seen["field location"] = urljoin(self.url, values[0])
            elif name not in SKIPPED_FIELDS:
                seen[f"field {name}"] = ", ".join(values)
        if response.status == 101:
            stream.sendall(b"ping.")
            seen["content"] = until(stream, b".").decode()
        else:
            seen["content"] = response.read().decode("latin-1")
        for received in fields.get("x-received", []):
            seen |= {f"received {name}": value for name, value in json.loads(received).items()}
        return seen


def compare(one, two):
    """Items in which they differ: item → both texts."""
    skipped = SKIPPED_OF_PAGES if is_page(one) else ()
    items = [item for item in {**one, **two} if one.get(item) != two.get(item) and item not in skipped]
    return {item: (one.get(item, "none"), two.get(item, "none")) for item in items if not same_shares(one.get(item), two.get(item))}


def is_page(seen):
    """Whether the program generated this response: an error or a redirect, and no text of the configuration."""
    if seen.get("backend") != "none":
        return False
    head = seen["content"] == "" and seen.get("field content-type") == "text/html"
    return seen["content"].startswith("<html") or seen["status"][0] == "3" or head


def same_shares(one, two):
    """Whether both used the same backends about as often."""
    if not isinstance(one, Counter) or not isinstance(two, Counter):
        return False
    return one.keys() == two.keys() and all(abs(one[at] - two[at]) <= ROUND_ROBIN_TOLERANCE for at in one)


def general_reason(item, old, new):
    """Why this difference is expected with every configuration, or None."""
    if item == "field cache-control" and (old, new) == ("none", "no-store"):
        return "docs/http/errors.md: own responses are not for caches"
    if item == "field content-type" and old == "none" and new == "text/plain; charset=utf-8":
        return "own responses have a type, also without content"
    if item == "field www-authenticate" and new == f'{old}, charset="UTF-8"':
        return "docs/http/access.md: names and passwords are UTF-8"
    return None
