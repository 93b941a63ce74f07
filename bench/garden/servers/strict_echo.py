"""A backend that accepts only what RFC 9112 allows a proxy to send: `strict_echo.py PORT`.

It is not a foreign server. It shows what the front wrote, byte by byte: each head is recorded as the field `raw`, and anything that is not
strict (bare LF, blanks, two framing fields, other names than tokens) ends the connection with 400 and a line with `"strict": reason`.
"""

import json
import os
import re
import socketserver
import sys

from seen import record

LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ /[!\x22\x24-\x7e]* HTTP/1\.[01]|OPTIONS \* HTTP/1\.1")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?[ \t]*")


class Refused(Exception):
    """The head or the content is not strict."""


def framing(fields, is_old):
    """Content length as a number, or "chunked"."""
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise Refused("more than one framing field")
    hosts = len([1 for name, _ in fields if name == b"host"])
    # A request without a host is one of HTTP/1.0 (RFC 9112 §3.2), which has no chunks.
    if hosts != (0 if is_old else 1):
        raise Refused(f"{hosts} fields Host")
    if is_old and codings:
        raise Refused("Transfer-Encoding in HTTP/1.0")
    if codings and codings[0].lower() != b"chunked":
        raise Refused(f"Transfer-Encoding {codings[0]!r}")
    if lengths and not re.fullmatch(rb"[0-9]{1,19}", lengths[0]):
        raise Refused(f"Content-Length {lengths[0]!r}")
    return "chunked" if codings else int(lengths[0]) if lengths else 0


class Echo(socketserver.StreamRequestHandler):
    def line(self):
        line = self.rfile.readline(65536)
        if not line:
            raise ConnectionError("the front closed within a message")
        if not line.endswith(b"\r\n"):
            raise Refused(f"line end of {line[-20:]!r}")
        return line[:-2]

    def fields(self):
        """Lower-case (name, value) up to the empty line."""
        found = []
        while line := self.line():
            self.raw += line + b"\r\n"
            match = FIELD.fullmatch(line)
            if not match:
                raise Refused(f"field {line[:60]!r}")
            found.append((match[1].lower(), match[2] or b""))
        return found

    def chunked(self):
        body = b""
        while True:
            size = self.line()
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,16}", size):
                raise Refused(f"chunk size {size[:40]!r}")
            if int(size, 16) == 0:
                self.fields()
                return body
            body += self.rfile.read(int(size, 16))
            if self.rfile.read(2) != b"\r\n":
                raise Refused("end of a chunk")

    def serve(self):
        """Serves one request. False: the connection ended."""
        first = self.rfile.readline(65536)
        if not first:
            return False
        self.raw = first
        if not first.endswith(b"\r\n") or not LINE.fullmatch(first[:-2]):
            raise Refused(f"request line {first[:60]!r}")
        method, target, version = first.split()
        fields = self.fields()
        length = framing(fields, version == b"HTTP/1.0")
        if any(name == b"expect" for name, _ in fields):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.chunked() if length == "chunked" else self.rfile.read(length)
        complete = body if length == "chunked" or len(body) == length else None
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
        answer = record(method.decode(), target.decode(), pairs, complete, self.client_address[1])
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer))
        if method != b"HEAD":
            self.wfile.write(answer)
        return True

    def handle(self):
        try:
            while self.serve():
                pass
        except Refused as reason:
            with open(os.environ["SEEN"], "a", encoding="utf-8") as out:
                out.write(json.dumps({"strict": str(reason), "raw": self.raw.decode("latin-1")}) + "\n")
            self.wfile.write(b"HTTP/1.1 400 Not strict\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except OSError:
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128


Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
