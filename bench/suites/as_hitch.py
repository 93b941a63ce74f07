"""The program `hitch` of hitch's own suite: Handfast with the same command line. `--daemon`, `--pidfile` and `--log-filename` are done here, as a
service manager does them, and `--dbg-listen`, which only this suite uses. The log is in the output of the test.

In: hitch's command line. Out: its exit code; with `--daemon` as soon as clients are served.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from .stand_in import StandIn


def taken(arguments, name):
    """Takes `--name=VALUE` out of the arguments; None without it."""
    found = [argument for argument in arguments if argument.startswith(f"--{name}=")]
    for argument in found:
        arguments.remove(argument)
    return found[-1].split("=", 1)[1] if found else None


def main(arguments):
    pid_file, hosts, _ = (taken(arguments, name) for name in ("pidfile", "dbg-listen", "log-filename"))
    if "--daemon" not in arguments:
        return subprocess.run(["hitch", *arguments], executable=os.environ["HANDFAST"], check=False).returncode
    arguments.remove("--daemon")
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        return 0 if os.read(ready, 1) else 1
    os.setsid()
    serve(arguments, pid_file, hosts, told)
    return 0


def serve(arguments, pid_file, hosts, told):
    """The process behind: it is signalled in the place of the proxy."""
    stand_in = StandIn("hitch", arguments, lambda line: print(line, file=sys.stderr, flush=True), sys.stderr)

    def show_hosts():
        # hitch lists IPv4 alone; `*` is one socket for both here.
        listed = [("0.0.0.0" if host == "::" else host, port) for host, port in stand_in.listeners()]
        Path(hosts).write_text("".join(f"{host}:{port}\n" for host, port in listed if ":" not in host))

    def reload(*_):
        stand_in.reload()
        show_hosts()

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stand_in.stop).start())
    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload).start())
    if stand_in.wait_for([": ready\n"]):
        show_hosts()
        Path(pid_file).write_text(f"{os.getpid()}\n")
        os.write(told, b"y")
    os.close(told)
    stand_in.process.wait()
    stand_in.reader.join()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
