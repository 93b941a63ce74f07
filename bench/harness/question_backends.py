"""Backends for imported configurations: HTTP servers that report the requests they receive.

In: addresses. Out: servers in threads of this process.
"""

import base64
import contextlib
import ctypes
import hashlib
import json
import os
import socket
import ssl
import threading

# Backends with these addresses are in a separate network namespace: the proxies may listen at the same port of all addresses.
FAR = "10.0.0."
FAR_NETWORK = "/run/netns/backends"

# Fields of requests that belong to the connection: they are not reported.
SKIPPED_FIELDS = {"connection", "content-length", "transfer-encoding"}


@contextlib.contextmanager
def http_backends(addresses, pem):
    """Servers at these addresses. Each detects TLS and the PROXY header, and reports the request in a field of its response."""
    listening = [listener_at(address) for address in addresses]
    for listener, address in zip(listening, addresses):
        threading.Thread(target=accept, args=(listener, address, pem), daemon=True).start()
    try:
        yield
    finally:
        for listener, address in zip(listening, addresses):
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            if address.startswith("/"):
                os.unlink(address)


def listener_at(address):
    if address.startswith("/"):
        os.makedirs(os.path.dirname(address), exist_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        os.chmod(address, 0o666)
    else:
        host, port = address.rsplit(":", 1)
        listener = far_socket() if host.startswith(FAR) else socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
    listener.listen(64)
    return listener


def far_socket():
    """A socket in the network of the backends. A short-lived thread creates it: a thread can enter a network without the rest of the process."""
    made = []

    def there():
        with open(FAR_NETWORK, "rb") as network:
            # CLONE_NEWNET
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0x40000000) == 0:
                made.append(socket.socket())

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    return made[0]


def accept(listener, address, pem):
    while True:
        try:
            stream, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(stream, address, pem), daemon=True).start()


def serve(stream, address, pem):
    with contextlib.suppress(OSError, ValueError):
        received = {}
        if stream.recv(6, socket.MSG_PEEK) == b"PROXY ":
            words = until(stream, b"\r\n").decode().split()
            received["proxy header"] = " ".join(["v1", *words[1:4], words[5]])
        if stream.recv(1, socket.MSG_PEEK) == b"\x16":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
            asked = []
            context.sni_callback = lambda _, name, __: asked.append(name)
            stream = context.wrap_socket(stream, server_side=True)
            received["tls name"] = str(asked[0] if asked else None)
        while answered(stream, address, received):
            pass
    stream.close()


def answered(stream, address, received):
    """Answers one request; whether there may be another one."""
    lines = until(stream, b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
    method, target, _ = lines[0].split()
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip())
    fields = {name: ", ".join(values) for name, values in fields.items()}
    content = content_of(stream, fields)
    told = received | {"method": method, "target": target} | {name: value for name, value in fields.items() if name not in SKIPPED_FIELDS}
    head = f"X-Backend: {address}\r\nX-Powered-By: questions\r\nX-Received: {json.dumps(told)}\r\n"
    if fields.get("upgrade", "").lower() == "websocket" and "upgrade" in fields.get("connection", "").lower():
        key = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        head += f"Connection: Upgrade\r\nUpgrade: {fields['upgrade']}\r\nSec-WebSocket-Accept: {key}\r\n"
        stream.sendall(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode())
        stream.sendall(until(stream, b"."))
        return False
    status = target.rsplit("/", 1)[1] if "/status/" in target else "200"
    if status[0] == "3":
        head += "Location: /elsewhere\r\n"
    if "/fresh/" in target:
        head += "Cache-Control: max-age=60\r\n"
    text = b"" if status == "204" else f"{address} read {len(content)} bytes\n".encode()
    length = "" if status == "204" else f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    stream.sendall(f"HTTP/1.1 {status} As asked\r\n{head}{length}\r\n".encode() + (b"" if method == "HEAD" else text))
    return fields.get("connection") != "close" and not lines[0].endswith("1.0")


def content_of(stream, fields):
    if "chunked" in fields.get("transfer-encoding", ""):
        content = b""
        while size := int(until(stream, b"\r\n"), 16):
            content += exactly(stream, size)
            until(stream, b"\r\n")
        until(stream, b"\r\n")
        return content
    return exactly(stream, int(fields.get("content-length", 0)))


def exactly(stream, size):
    heard = b""
    while len(heard) < size:
        more = stream.recv(min(65536, size - len(heard)))
        if not more:
            raise OSError("ended early")
        heard += more
    return heard


def until(stream, end):
    heard = b""
    while not heard.endswith(end):
        more = stream.recv(1)
        if not more:
            raise OSError("ended early")
        heard += more
    return heard
