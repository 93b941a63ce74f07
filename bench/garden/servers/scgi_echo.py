"""The echo behind nginx, apache2 and lighttpd, which cannot echo themselves: an SCGI server, `scgi_echo.py PORT`."""

import socketserver
import sys

from seen import record


class Echo(socketserver.StreamRequestHandler):
    """One request: a netstring of CGI variables, then the content."""

    def handle(self):
        length = b""
        while (byte := self.rfile.read(1)) != b":":
            if not byte:
                return
            length += byte
        words = self.rfile.read(int(length) + 1)[:-1].decode("latin-1").split("\0")
        values = dict(zip(words[::2], words[1::2]))
        expected = int(values.get("CONTENT_LENGTH") or 0)
        body = self.rfile.read(expected)
        headers = [(name[5:].replace("_", "-").lower(), value) for name, value in values.items() if name.startswith("HTTP_")]
        headers += [("content-length", values["CONTENT_LENGTH"])] if values.get("CONTENT_LENGTH") else []
        complete = body if len(body) == expected else None
        answer = record(values["REQUEST_METHOD"], values["REQUEST_URI"], headers, complete, values.get("REMOTE_PORT"))
        self.wfile.write(b"Status: 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer))
        self.wfile.write(answer)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128


Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
