"""Servers for clients of the pages beside: SERVER PORT FOLDER. `git` serves the folder by HTTP, with git's own CGI program; `dns` answers
questions by TCP."""

import http.server
import os
import socketserver
import subprocess
import sys


class Git(http.server.BaseHTTPRequestHandler):
    """Runs `git http-backend` for each request (RFC 3875)."""

    protocol_version = "HTTP/1.1"

    def respond(self):
        path, _, query = self.path.partition("?")
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        env = {**os.environ, "GIT_PROJECT_ROOT": self.server.folder, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
               "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(content)),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        done = subprocess.run(["git", "http-backend"], input=content, stdout=subprocess.PIPE, env=env, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((value for name, value in fields if name == "Status"), "200 OK")
        self.send_response(int(status.split()[0]))
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = respond


class Dns(socketserver.StreamRequestHandler):
    """Answers each question with one address (RFC 7766)."""

    def handle(self):
        while length := self.rfile.read(2):
            query = self.rfile.read(int.from_bytes(length, "big"))
            end = query.index(0, 12) + 5
            answer = bytes.fromhex("c00c 0001 0001 0000003c 0004 c0000201")
            message = query[:2] + bytes.fromhex("8180 0001 0001 0000 0000") + query[12:end] + answer
            self.wfile.write(len(message).to_bytes(2, "big") + message)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main():
    name, port, folder = sys.argv[1:]
    with Server(("127.0.0.1", int(port)), {"git": Git, "dns": Dns}[name]) as server:
        server.folder = folder
        server.serve_forever()


main()
