"""What one connection of a plain client carries through the proxy, and what the access log says of it."""

import base64
import json
import os
import socket
import threading

from harness.machine import Failed, wait_until

# In lines, as the echo of gnutls-serv reads them.
BULK = base64.encodebytes(os.urandom(7_500_000))[:9_999_999] + b"\n"


def carry(port, manner):
    """Sends the bulk and compares what comes back, then both sides end. `take`: the server only receives. `give`: it only sends a file that is
    requested. Fails with the reason. Deadline: 20 s without progress."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), 20) as peer:
        sender = threading.Thread(target=send, args=(peer, b"GET /bulk HTTP/1.0\r\n\r\n" if manner == "give" else BULK), daemon=True)
        sender.start()
        while manner == "give" or manner == "echo" and len(received) < len(BULK):
            more = peer.recv(1 << 18)
            if not more:
                break
            received += more
        sender.join(20)
        content = received.partition(b"\r\n\r\n")[2] if manner == "give" else received
        if manner != "take" and content != BULK:
            raise Failed(f"{len(content)} of {len(BULK)} bytes, or others, came back")
        peer.shutdown(socket.SHUT_WR)
        if manner != "give" and peer.recv(1):
            raise Failed("more came back than was sent")


def send(peer, data):
    try:
        peer.sendall(data)
    except OSError:
        # The receiving side reports what is missing.
        pass


def logged(log, port, manner):
    """Carries, and returns the line that the access log then has."""
    before, problem = len(log.read_text().splitlines()), None
    try:
        carry(port, manner)
    except (Failed, OSError) as reason:
        problem = reason
    line = json.loads(wait_until("the line of the access log", lambda: log.read_text().splitlines()[before:], 10)[-1])
    if problem:
        raise Failed(f"{problem}; the access log has {line['reason']}")
    return line
