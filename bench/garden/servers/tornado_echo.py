"""The echo on tornado: `tornado_echo.py PORT`."""

import asyncio
import sys

from seen import record
from tornado import httpserver, httputil


class Echo(httputil.HTTPMessageDelegate):
    """One request: its head, its content, its end."""

    def __init__(self, server, connection):
        self.server, self.connection, self.body = server, connection, b""

    def headers_received(self, start, headers):
        self.start, self.headers = start, headers

    def data_received(self, chunk):
        self.body += chunk

    def on_connection_close(self):
        self.answer(None)

    def finish(self):
        answer = self.answer(self.body)
        head = httputil.HTTPHeaders({"Content-Type": "application/json", "Content-Length": str(len(answer))})
        content = answer if self.start.method != "HEAD" else b""
        self.connection.write_headers(httputil.ResponseStartLine("HTTP/1.1", 200, "OK"), head, content)
        self.connection.finish()

    def answer(self, body):
        return record(self.start.method, self.start.path, list(self.headers.get_all()), body, id(self.server))


class Listener(httpserver.HTTPServer):
    """Tornado's server with our delegate for each connection."""

    def start_request(self, server_connection, request_connection):
        return Echo(server_connection, request_connection)


async def main():
    Listener(lambda request: None).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main())
