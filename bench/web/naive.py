"""A proxy with the faults that the garden looks for, to show that it finds them: `naive.py CONFIG`. Never use it for anything else.

In: a JSON file with routes and the log. Faults: Content-Length is preferred to Transfer-Encoding, heads are forwarded unchanged, backend connections
are shared by clients, and what is left over in them is not looked at. HTTP/1 only.
"""

import json
import re
import socketserver
import ssl
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from web import h1  # noqa: E402

CONFIG = json.loads(Path(sys.argv[1]).read_text())
POOLS = {route["backend"]: [] for route in CONFIG["routes"]}


def content(reader, head):
    """The content by the length, else by the last chunk."""
    if length := re.search(rb"(?im)^content-length:\s*(\d+)", head):
        return reader.read(int(length[1]))
    out = b""
    if re.search(rb"(?im)^transfer-encoding:.*chunked", head):
        while not out.endswith(b"0\r\n\r\n") and (byte := reader.read(1)):
            out += byte
    return out


class Proxy(socketserver.StreamRequestHandler):
    def handle(self):
        try:
            while self.serve():
                pass
        except (OSError, ValueError, IndexError):
            pass

    def serve(self):
        """One request there and its response back. False: the client has closed."""
        head = b""
        while not head.endswith((b"\r\n\r\n", b"\n\n")):
            line = self.rfile.readline(65536)
            if not line:
                return False
            head += line
        # Without it, so that the backend keeps the connection.
        message = head.replace(b"Connection: close\r\n", b"") + content(self.rfile, head)
        words = head.split(b" ")
        pool = POOLS[self.server.backend]
        connection = pool.pop() if pool else h1.Connection(self.server.backend)
        connection.send(message)
        answer = connection.response(3, words[0] == b"HEAD")
        with open(CONFIG["log"], "a", encoding="utf-8") as log:
            method, path = (word.decode("latin-1") for word in words[:2])
            log.write(json.dumps({"method": method, "path": path, "status": answer and answer.status}) + "\n")
        if not answer:
            return False
        pool.append(connection)
        self.wfile.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (answer.status, len(answer.body)) + answer.body)
        return True


class Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    def __init__(self, port, backend, context=None):
        self.backend = backend
        super().__init__(("127.0.0.1", port), Proxy)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CONFIG["certificate"])
    for route in CONFIG["routes"]:
        for listener in (Listener(route["plain"], route["backend"]), Listener(route["tls"], route["backend"], context)):
            threading.Thread(target=listener.serve_forever).start()


main()
