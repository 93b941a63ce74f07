"""Sends 1,000 packets a second to `server`: `udp_client.py PACKETS`. Out: how many came back, and p50, p99 and maximum of their round trips in ms."""

import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.pairs import percentile  # noqa: E402

RATE = 1000
sent, took = {}, []


def receive(link, packets):
    """Until all are there, or none comes for 3 s."""
    while len(took) < packets:
        try:
            data = link.recv(2000)
        except TimeoutError:
            break
        took.append((time.monotonic() - sent[int(data.split()[0])]) * 1e3)


def main(packets):
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.connect(("server", 9001))
    link.settimeout(3)
    receiver = threading.Thread(target=receive, args=(link, packets))
    receiver.start()
    begun = time.monotonic()
    for number in range(packets):
        time.sleep(max(0, begun + number / RATE - time.monotonic()))
        sent[number] = time.monotonic()
        link.send(b"%d " % number + b"x" * 90)
    receiver.join()
    print(f"{len(took)} {percentile(took, 0.5):.3f} {percentile(took, 0.99):.3f} {max(took):.3f}")


main(int(sys.argv[1]))
