"""Requests that two proxies are asked, one after the other, and what is compared.

In: files `.requests`, as described by `Play`. Out: for each request, what a client and a backend saw.
"""

import base64
import contextlib
import ctypes
import hashlib
import http.client
import json
import os
import socket
import ssl
import threading
from collections import Counter
from urllib.parse import urljoin, urlsplit

PATIENCE = 10  # seconds

# Not compared: they are about one connection, the time, or the program, and both programs write them as they like.
OF_RESPONSES = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "x-backend", "x-received"}
OF_REQUESTS = {"connection", "content-length", "transfer-encoding"}
# Of a page that the old program made itself, only the status and the fields of the configuration are compared: its words are its own.
OF_PAGES = {"content", "field cache-control", "field content-type"}
# Backends of these addresses are in a network of their own, for programs that listen at the same port of all addresses.
FAR = "10.0.0."
FAR_NETWORK = "/run/netns/backends"
# Each of two workers of Handfast takes turns by itself.
TURNS = 2


class Play:
    """A file `.requests`. Each line is one of these; `#` begins a comment.

    `backends ADDRESS…`                  what answers: HOST:PORT, or a path
    `pem FILE NAME…`                     a certificate and its key
    `pair CHAIN KEY NAME…`               the same, in two files
    `authority FILE`                     the certificate of the authority of all of these
    `revoked FILE`                       its list, which is empty
    `file PATH TEXT`                     a line of text for both programs
    `refused N`                          so many of its services are refused, and nobody listens there afterwards
    `differs ITEM: REASON`               an item that differs, or `all`; after a request, in that one alone
    `METHOD URL OPTION… | FIELD | …`     a request; options: `at=ADDRESS` `from=ADDRESS` `shows=NAME` `proxy=ADDRESS` `content=TEXT`
                                         `bytes=N` `x=N` (so often) `session` (again, with its cookie) `hash` (by address) `websocket`
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
            elif name not in OF_RESPONSES:
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
    page = one.get("backend") == "none" and (
        one.get("content", "").startswith("<html") or one["status"][0] == "3" or (one["content"] == "" and one.get("field content-type") == "text/html"))
    items = [item for item in {**one, **two} if one.get(item) != two.get(item) and not (page and item in OF_PAGES)]
    return {item: (one.get(item, "none"), two.get(item, "none")) for item in items if not same_turns(one.get(item), two.get(item))}


def same_turns(one, two):
    """Whether both used the same backends about as often."""
    return isinstance(one, Counter) and isinstance(two, Counter) and all(one[at] and two[at] and abs(one[at] - two[at]) <= TURNS for at in one | two)


def always(item, old, new):
    """Why this difference is no fault of the importer, whatever the configuration; else None."""
    if item == "field cache-control" and (old, new) == ("none", "no-store"):
        return "docs/http/errors.md: what Handfast answers itself is not for caches"
    if item == "field content-type" and old == "none" and new == "text/plain; charset=utf-8":
        return "what Handfast answers itself has a type, also without content"
    if item == "field www-authenticate" and new == f'{old}, charset="UTF-8"':
        return "docs/http/access.md: names and passwords are UTF-8"
    return None


def until(stream, end):
    heard = b""
    while not heard.endswith(end):
        more = stream.recv(1)
        if not more:
            raise OSError("ended early")
        heard += more
    return heard


@contextlib.contextmanager
def http_backends(addresses, pem):
    """Servers at these addresses. Each speaks TLS with those who do, reads a PROXY header from those who send one, and tells what it received."""
    listening = [listener_at(address) for address in addresses]
    for listener, address in zip(listening, addresses):
        threading.Thread(target=accept, args=(listener, address, pem), daemon=True).start()
    try:
        yield
    finally:
        for listener, address in zip(listening, addresses):
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            if address.startswith("/"):
                os.unlink(address)


def listener_at(address):
    if address.startswith("/"):
        os.makedirs(os.path.dirname(address), exist_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        os.chmod(address, 0o666)
    else:
        host, port = address.rsplit(":", 1)
        listener = far_socket() if host.startswith(FAR) else socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
    listener.listen(64)
    return listener


def far_socket():
    """A socket in the network of the backends: of a thread that goes there and ends."""
    made = []

    def there():
        with open(FAR_NETWORK, "rb") as network:
            # CLONE_NEWNET
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0x40000000) == 0:
                made.append(socket.socket())

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    return made[0]


def accept(listener, address, pem):
    while True:
        try:
            stream, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(stream, address, pem), daemon=True).start()


def serve(stream, address, pem):
    with contextlib.suppress(OSError, ValueError):
        received = {}
        if stream.recv(6, socket.MSG_PEEK) == b"PROXY ":
            words = until(stream, b"\r\n").decode().split()
            received["proxy header"] = " ".join(["v1", *words[1:4], words[5]])
        if stream.recv(1, socket.MSG_PEEK) == b"\x16":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
            asked = []
            context.sni_callback = lambda _, name, __: asked.append(name)
            stream = context.wrap_socket(stream, server_side=True)
            received["tls name"] = str(asked[0] if asked else None)
        while answered(stream, address, received):
            pass
    stream.close()


def answered(stream, address, received):
    """Answers one request; whether there may be another one."""
    lines = until(stream, b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
    method, target, _ = lines[0].split()
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip())
    fields = {name: ", ".join(values) for name, values in fields.items()}
    content = content_of(stream, fields)
    told = received | {"method": method, "target": target} | {name: value for name, value in fields.items() if name not in OF_REQUESTS}
    head = f"X-Backend: {address}\r\nX-Powered-By: questions\r\nX-Received: {json.dumps(told)}\r\n"
    if fields.get("upgrade", "").lower() == "websocket" and "upgrade" in fields.get("connection", "").lower():
        key = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        head += f"Connection: Upgrade\r\nUpgrade: {fields['upgrade']}\r\nSec-WebSocket-Accept: {key}\r\n"
        stream.sendall(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode())
        stream.sendall(until(stream, b"."))
        return False
    status = target.rsplit("/", 1)[1] if "/status/" in target else "200"
    if status[0] == "3":
        head += "Location: /elsewhere\r\n"
    text = b"" if status == "204" else f"{address} read {len(content)} bytes\n".encode()
    length = "" if status == "204" else f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    stream.sendall(f"HTTP/1.1 {status} As asked\r\n{head}{length}\r\n".encode() + (b"" if method == "HEAD" else text))
    return fields.get("connection") != "close" and not lines[0].endswith("1.0")


def content_of(stream, fields):
    if "chunked" in fields.get("transfer-encoding", ""):
        content = b""
        while size := int(until(stream, b"\r\n"), 16):
            content += exactly(stream, size)
            until(stream, b"\r\n")
        until(stream, b"\r\n")
        return content
    return exactly(stream, int(fields.get("content-length", 0)))


def exactly(stream, size):
    heard = b""
    while len(heard) < size:
        more = stream.recv(min(65536, size - len(heard)))
        if not more:
            raise OSError("ended early")
        heard += more
    return heard
