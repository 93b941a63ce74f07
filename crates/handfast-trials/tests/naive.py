#!/usr/bin/env python3
"""A naive TLS proxy for a test: every end, a reset too, becomes a clean end on the other side.

Its command line and configuration are hitch's: --config=FILE, of which it reads the backend and the certificate.
"""
import re
import select
import socket
import ssl
import sys
import threading

if "--test" in sys.argv:
    sys.exit(0)
text = open(sys.argv[1].split("=", 1)[1]).read()
address, port = re.search(r'^backend = "\[(.*)\]:(\d+)"', text, re.M).groups()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(re.search(r'^pem-file = "(.*)"', text, re.M).group(1))
host = re.search(r'host = "(.*)"', text).group(1)
listener = socket.create_server((host, int(re.search(r'port = "(\d+)"', text).group(1))), backlog=512)


def end_plain(sink):
    sink.shutdown(socket.SHUT_WR)


def end_tls(sink):
    # close_notify goes out at once; the client's own may never come.
    sink.settimeout(0.2)
    try:
        sink.unwrap()
    except OSError:
        pass
    sink.shutdown(socket.SHUT_WR)


def serve(plain):
    try:
        client = context.wrap_socket(plain, server_side=True)
        backend = socket.create_connection((address, int(port)))
    except OSError:
        return
    other = {client: (backend, end_plain), backend: (client, end_tls)}
    while other:
        ready = [client] if client in other and client.pending() else select.select(list(other), [], [])[0]
        for source in ready:
            sink, end = other[source]
            try:
                data = source.recv(16384)
                sink.sendall(data)
            except OSError:
                data = b""  # The lie: an abort is an end as any other.
            if not data:
                del other[source]
                try:
                    end(sink)
                except OSError:
                    pass
    client.close()
    backend.close()


while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
