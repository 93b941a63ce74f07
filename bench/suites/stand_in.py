"""Handfast in the place of a program whose test suite starts it: started, observed, signalled and ended.

In: the command line of the other program. Out: a process that is ready, its listening addresses, its log and its access log.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

# A start of a debug build with two processes more, on a busy machine.
START_SECONDS = 20
LISTEN_STATE = "0A"


class StandIn:
    """The proxy as a child process. Lines of its log go to `heard`, on a thread."""

    def __init__(self, name, arguments, heard, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL):
        program = os.environ["HANDFAST"]
        self.lines, self.changed = [], threading.Condition()
        self.process = subprocess.Popen([name, *arguments], executable=program, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True)
        self.heard = heard
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.heard(line.rstrip("\n"))
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()
        with self.changed:
            self.lines.append("")
            self.changed.notify_all()

    def wait_for(self, texts, since=0):
        """Waits for a line of the log with one of these texts; False when the process ended first, or the time is over."""
        end = time.monotonic() + START_SECONDS
        with self.changed:
            while True:
                if any(text in line for line in self.lines[since:] for text in texts):
                    return True
                if "" in self.lines or time.monotonic() > end:
                    return False
                self.changed.wait(end - time.monotonic())

    def reload(self):
        """Sends HUP and waits for what the log says of it. Returns whether all of it took effect."""
        since = len(self.lines)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for(["reloaded: ", "reloaded in part: ", "reload: ", "reload failed"], since)
        return any("reloaded: " in line for line in self.lines[since:])

    def stop(self):
        """Ends it as the other programs end: at once, as the second signal does."""
        while self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        self.reader.join()
        return self.process.returncode

    def listeners(self):
        """The IPv4 and IPv6 addresses that its processes listen on, in the order in which they were opened."""
        addresses = socket_addresses()
        found = []
        folder = Path(f"/proc/{self.process.pid}/fd")
        for descriptor in sorted(folder.iterdir(), key=lambda path: int(path.name)):
            try:
                address = addresses.get(os.readlink(descriptor))
            except OSError:
                continue
            if address and address not in found:
                found.append(address)
        return found


def socket_addresses():
    """`socket:[INODE]` → (host, port) of every TCP socket that listens."""
    found = {}
    for table, size in (("/proc/net/tcp", 8), ("/proc/net/tcp6", 32)):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            host, port = words[1].split(":")
            if words[3] == LISTEN_STATE:
                found[f"socket:[{words[9]}]"] = (text_of(host, size), int(port, 16))
    return found


def text_of(host, size):
    """An address as the kernel shows it: words of four bytes, each in the machine's order."""
    words = [bytes.fromhex(host[at:at + 8]) for at in range(0, size, 8)]
    ordered = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if size == 8 else socket.AF_INET6, ordered)
