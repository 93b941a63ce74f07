"""A relay that waits before it sends the server's first bytes: `relay.py MILLISECONDS TRUTH SERVER…`.

In: the time that it waits, a file, the command of a server that listens on 9443. Out: for each connection a line in the file, how many milliseconds
the wait really took: from the moment at which its kernel had the client's last bytes (by the kernel's own stamp) to the moment at which it sent the
first answer. A relay that had to wait for a core is slower in truth, and the probe has to find that too: so any user on any machine can judge.
"""

import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import machine  # noqa: E402

SO_TIMESTAMPNS = 35
LISTEN, BEHIND = 8443, 9443


def to_server(near, far, arrived):
    """Copies what the client sends, and keeps when the last of it arrived."""
    while True:
        data, notes, _, _ = near.recvmsg(65536, 64)
        if not data:
            break
        for level, kind, stamp in notes:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanoseconds = struct.unpack("qq", stamp[:16])
                arrived[0] = seconds * 10**9 + nanoseconds
        far.sendall(data)
    far.shutdown(socket.SHUT_WR)


def carry(near, wait, truth):
    """One connection."""
    far, arrived, first = socket.create_connection(("127.0.0.1", BEHIND)), [0], True
    for one in (near, far):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=to_server, args=(near, far, arrived), daemon=True).start()
    try:
        while data := far.recv(65536):
            if first:
                time.sleep(wait)
                took = time.time_ns() - arrived[0]
            near.sendall(data)
            if first and arrived[0]:
                os.write(truth, f"{took / 1e6:.4f}\n".encode())
            first = False
    except OSError:
        pass
    near.close()


def main():
    wait, path, *server = sys.argv[1:]
    # The server behind it listens first: the lab waits for port 8443.
    behind = machine.Process(server, None, os.devnull)
    machine.wait_for_port(BEHIND, behind)
    listener = socket.create_server(("0.0.0.0", LISTEN))
    # Connections inherit it: the hello can be there before accept returns.
    listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    truth = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=carry, args=(connection, float(wait) / 1e3, truth), daemon=True).start()


main()
