"""A client that writes any bytes and reads HTTP/1 responses.

In: a socket and bytes. Out: the responses in order, until a stop condition, the end of the connection, or a quiet time.
"""

import socket
import ssl
import time
from dataclasses import dataclass, field


@dataclass
class Response:
    """One response; `complete` is false when the connection ended or went quiet within it."""

    status: int
    headers: list = field(default_factory=list)
    body: bytes = b""
    complete: bool = True

    def header(self, name):
        """The first value of a field, or None."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Incomplete(Exception):
    """More bytes are needed."""


class Wire:
    """The bytes of one client connection; with TLS when it has a protocol to agree on."""

    def __init__(self, port, protocol=None, receive_buffer=None):
        plain = socket.socket()
        plain.settimeout(10)
        if receive_buffer:
            # Before connecting: it decides the window that is offered.
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.connect(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # An end without close_notify is an error, as a reset is.
        wrapped = protocol and client_context([protocol]).wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)
        self.socket = wrapped or plain
        # `broken`: why the connection ended, where it did not end cleanly.
        self.buffer, self.ended, self.broken = b"", False, None

    def send(self, data):
        """Writes all of it. False: the peer has closed, or does not read; its response may still be there."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def fill(self, deadline):
        """Reads once. False: the connection ended, or the deadline passed."""
        left = deadline - time.monotonic()
        if self.ended or left <= 0:
            return False
        self.socket.settimeout(left)
        try:
            more = self.socket.recv(1 << 16)
        except (TimeoutError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            more, self.broken = b"", error
        self.ended = not more
        self.buffer += more
        return bool(more)

    def close(self):
        self.socket.close()


class Connection(Wire):
    """HTTP/1.1, plain or TLS."""

    def __init__(self, port, tls=False, receive_buffer=None):
        super().__init__(port, "http/1.1" if tls else None, receive_buffer)

    def response(self, quiet=2.0, to_head=False):
        """The next final response (1xx except 101 are skipped); None when none begins in time."""
        while True:
            deadline = time.monotonic() + quiet
            try:
                found, self.buffer = parse(self.buffer, self.ended, to_head)
            except Incomplete:
                had_ended = self.ended
                if self.fill(deadline) or self.ended and not had_ended:
                    continue
                if self.buffer.startswith(b"HTTP/"):
                    status = self.buffer[9:12]
                    return Response(int(status) if status.isdigit() else 0, [], self.buffer, False)
                return None
            if found.status >= 200 or found.status == 101:
                return found


def websocket(port, seconds):
    """A connection after the 101 of a WebSocket; ConnectionError with any other response."""
    connection = Connection(port, tls=True)
    connection.send(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDAwMDAwMDAwMDAwMDAwMA==\r\n\r\n")
    answer = connection.response(seconds)
    if not answer or answer.status != 101:
        raise ConnectionError(f"the upgrade was answered with {answer}")
    return connection


def client_context(protocols):
    """TLS of a client that accepts any certificate."""
    # Not create_default_context(): it reads all authorities, for each connection.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    return context


def parse(data, ended=False, to_head=False):
    """(response, bytes after it); Incomplete when it goes on."""
    head, separator, rest = data.partition(b"\r\n\r\n")
    if not separator:
        raise Incomplete
    lines = head.split(b"\r\n")
    words = lines[0].split(b" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    pairs = [line.decode("latin-1").partition(":") for line in lines[1:]]
    found = Response(status, [(name, value.strip()) for name, _, value in pairs])
    if to_head or status in (204, 304) or status < 200:
        return found, rest
    if "chunked" in (found.header("transfer-encoding") or ""):
        found.body, rest = chunks(rest)
        return found, rest
    length = found.header("content-length")
    if length is None:
        if not ended:
            raise Incomplete
        found.body = rest
        return found, b""
    if len(rest) < int(length):
        raise Incomplete
    found.body = rest[: int(length)]
    return found, rest[int(length) :]


def chunks(data):
    """(content, bytes after the trailer section)."""
    content = b""
    while True:
        size, separator, rest = data.partition(b"\r\n")
        if not separator:
            raise Incomplete
        length = int(size.split(b";")[0], 16)
        if length == 0:
            trailers, separator, after = (b"\r\n" + rest).partition(b"\r\n\r\n")
            if not separator:
                raise Incomplete
            return content, after
        if len(rest) < length + 2:
            raise Incomplete
        content, data = content + rest[:length], rest[length + 2 :]
