"""The backends of hitch's suite: 127.0.0.1 answers 200, as hitch-tls.org does, 127.0.0.2 answers 404, as varnish-cache.org does there. Port 8000
is hitch's default, where its suite has no server: hitch ends such clients, Handfast resets them, and `openssl s_client` fails at a reset."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answers(BaseHTTPRequestHandler):
    """HEAD and GET without content."""

    def do_HEAD(self):
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD

    def log_message(self, *_):
        """Nothing."""


def serve(address, status, port=80):
    server = ThreadingHTTPServer((address, port), Answers)
    server.status = status
    server.serve_forever()


threading.Thread(target=serve, args=("127.0.0.2", 404)).start()
threading.Thread(target=serve, args=("127.0.0.1", 200, 8000)).start()
serve("127.0.0.1", 200)
