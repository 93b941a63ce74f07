"""The program `stunnel` of stunnel's own suite: Handfast with the same command line. The suite judges by stunnel's log, so what Handfast's log
and access log record is written to standard error once more, in the words of stunnel's log.

Two lines are concluded. `OCSP: Accepted (good)`: the backend of a client that checks stapled responses is a server that staples (its adapter left a
file with the number of its port), and the connection was good. `OCSP: Rejected (revoked)`: Handfast does not serve a certificate whose
response says `revoked`, where stunnel serves it and its client refuses it.

In: `-version`, or the file. Out: lines on standard error; signals are passed on. An access log that is not on standard output is not read: the
suite's file without sections, for inetd, has its client there.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from . import ocsp
from .stand_in import StandIn

# For what the processes of a run know of one another.
SHARED = Path(os.environ["HANDFAST_SUITES"])
# The suite refuses versions that it does not know; nothing depends on them.
VERSION = "stunnel 5.82 (Handfast in its place)\nCompiled/running with OpenSSL 3.0.0"
# (step, cause, a part of the detail) of the access log → stunnel's words for it. The first that fits.
WORDS = [
    ("handshake", "client-certificate", "revoked", "certificate verify failed: certificate revoked"),
    ("handshake", "client-certificate", "no certificate", "peer did not return a certificate; SSL alert: certificate required"),
    ("handshake", "client-certificate", "", "certificate verify failed: unknown CA"),
    ("connect", "backend-certificate", "", "certificate verify failed"),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


def good_staple(backend):
    """Whether the server at this address staples a good response."""
    return backend and (SHARED / f"staples-{backend.rsplit(':', 1)[1]}").exists()


def translate(line, checks_staples):
    """One connection of the access log in stunnel's words."""
    try:
        record = json.loads(line)
    except ValueError:
        return
    say(f"Handfast: {line.strip()}")
    service, reason = record.get("service"), record.get("reason", {})
    if record.get("resumed") is not None:
        say(f"Service [{service}]: TLS accepted: {'previous session reused' if record['resumed'] else 'new session negotiated'}")
    if "client_failed" in record:
        say("Redirecting connection")
    detail = str(reason.get("detail", ""))
    if checks_staples and not reason.get("failed") and good_staple(record.get("backend")):
        say("OCSP: Accepted (good)")
    for step, cause, part, words in WORDS:
        if (reason.get("step"), reason.get("cause")) == (step, cause) and part in detail:
            say(f"{words} ({detail})")
            break
    else:
        if reason.get("failed"):
            say(f"{reason['cause']}: {detail}")


def main(arguments):
    if arguments == ["-version"]:
        say(VERSION)
        return 0
    text = Path(arguments[0]).read_text()
    has_section = any(line.strip().startswith(("[", "include")) for line in text.splitlines())
    staples = ocsp.staple(text)
    stand_in = StandIn("stunnel", arguments, say, *((subprocess.PIPE,) if has_section else (None, None)))
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stand_in.stop).start())
    checks_staples = "verifyChain = yes" in text and "client = yes" in text
    reader = threading.Thread(target=lambda: [translate(line, checks_staples) for line in stand_in.process.stdout or []])
    reader.start()

    def show_ports():
        for host, port in stand_in.listeners():
            say(f"Service bound to [{host}]:{port}")
            if staples:
                (SHARED / f"staples-{port}").touch()

    def reload(*_):
        stand_in.reload()
        show_ports()

    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload).start())
    if not stand_in.wait_for([": ready\n"]):
        stand_in.process.wait()
        if any("says that the certificate was revoked" in line for line in stand_in.lines):
            say("OCSP: Rejected (revoked)")
        say("Configuration failed")
    elif not has_section:
        say("Service [inetd] started")
    else:
        if not stand_in.listeners():
            say("Starting exec+connect")
        show_ports()
        say("Accepting new connections")
    code = stand_in.process.wait()
    stand_in.reader.join()
    reader.join()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
