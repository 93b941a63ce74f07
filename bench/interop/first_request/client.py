"""Python's ssl, as it is by default: with Nagle's algorithm. `client.py PORT TIMES VERSION`: the microseconds of each first request."""

import socket
import ssl
import sys
import time

port, times, version = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, "TLSv" + version.replace(".", "_"))
for _ in range(times):
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost") as stream:
        began = time.monotonic()
        stream.sendall(b"ping")
        assert stream.recv(4) == b"ping"
        print(round((time.monotonic() - began) * 1e6))
