"""The echo behind nginx, apache2 and lighttpd, which cannot echo themselves: a FastCGI server, `fastcgi_echo.py PORT`.

FastCGI and not SCGI, because content without a length can be passed on by it: apache2 answers 411 to chunks before SCGI.
"""

import socketserver
import struct
import sys

from seen import record

BEGIN, END, PARAMS, STDIN, STDOUT = 1, 3, 4, 5, 6


def pairs(data):
    """Name-value pairs (FastCGI 1.0 §3.4)."""
    found, at = {}, 0
    while at < len(data):
        sizes = []
        for _ in range(2):
            wide = data[at] >> 7
            sizes.append(struct.unpack_from(">I", data, at)[0] & 0x7FFFFFFF if wide else data[at])
            at += 4 if wide else 1
        name, value = data[at : at + sizes[0]], data[at + sizes[0] : at + sum(sizes)]
        found[name.decode("latin-1")] = value.decode("latin-1")
        at += sum(sizes)
    return found


class Echo(socketserver.StreamRequestHandler):
    """One request: BEGIN, PARAMS up to an empty one, STDIN up to an empty one."""

    def stream(self, wanted):
        """The content of all records of that kind up to the empty one; None when the connection ends before it."""
        parts = []
        while len(head := self.rfile.read(8)) == 8:
            _, kind, self.number, size, padding, _ = struct.unpack(">BBHHBB", head)
            data = self.rfile.read(size)
            self.rfile.read(padding)
            if kind == wanted and not size:
                return b"".join(parts)
            parts += [data] if kind == wanted else []
        return None

    def handle(self):
        values = self.stream(PARAMS)
        if values is None:
            return
        values, body = pairs(values), self.stream(STDIN)
        expected = values.get("CONTENT_LENGTH")
        headers = [(name[5:].replace("_", "-").lower(), value) for name, value in values.items() if name.startswith("HTTP_")]
        headers += [("content-length", expected)] if expected else []
        complete = body if not expected or len(body or b"") == int(expected) else None
        answer = record(values["REQUEST_METHOD"], values["REQUEST_URI"], headers, complete, values.get("REMOTE_PORT"))
        answer = b"Status: 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer
        for kind, data in ((STDOUT, answer), (STDOUT, b""), (END, bytes(8))):
            self.wfile.write(struct.pack(">BBHHBB", 1, kind, self.number, len(data), 0, 0) + data)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128


Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
