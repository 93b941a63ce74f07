"""Where foreign programs are: packages of other languages live in `target/tools`, which `scripts/install-missing garden` fills.

In: a name. Out: a path, or None when it is not installed. Also the Python of that folder, for tools that need its packages; and Handfast itself.
"""

import os
import shutil
import sys
from pathlib import Path

from harness import machine
from harness.machine import Failed, Process

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools"
VENV = TOOLS / "venv"
SYSTEM = ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"


def enter_venv():
    """Continues this program in the Python of `target/tools`, which has hpack, YAML and the servers; exits 2 without it."""
    python = VENV / "bin/python"
    if Path(sys.prefix) == VENV:
        return
    if not python.exists():
        sys.exit(f"run {sys.argv[0]}: {python} does not exist; hint: run `scripts/install-missing garden`")
    os.execv(python, [str(python), *sys.argv])


def find(name):
    """The path of a program: $NAME in upper case, or in `target/tools`, in its virtual environment, or on the PATH; None without it."""
    if chosen := os.environ.get(name.upper()):
        return chosen
    for folder in (TOOLS, VENV / "bin"):
        if (folder / name).exists():
            return str(folder / name)
    return shutil.which(name, path=os.environ.get("PATH", "") + SYSTEM)


def newest(name):
    """The program of Debian's newest suite, which scripts/newest-peers unpacks."""
    program = TOOLS / "newest/bin" / name
    if not program.exists():
        raise Failed(f"start {name}: {program} does not exist; hint: run `scripts/newest-peers`")
    return str(program)


def handfast(chosen=None):
    """The program: this one, or $HANDFAST, or the release program."""
    program = Path(chosen or os.environ.get("HANDFAST") or ROOT / "target/release/handfast").resolve()
    if not program.exists():
        raise Failed(f"start Handfast: {program} does not exist; hint: `make release`, or HANDFAST=PROGRAM")
    return str(program)


def handfast_argument():
    """The program that is the script's argument, or the debug program."""
    return handfast(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/handfast")


def client_backend(log, cores=None, page=os.devnull, port=None):
    """The backend of clients, attacks and changes, which serves that page: (process, port)."""
    if not find("client-backend"):
        raise Failed("start the backend: it is not built; hint: `scripts/install-missing garden`")
    port = port or machine.free_port()
    process = Process([find("client-backend"), port, page], cores, log)
    machine.wait_for_port(port, process)
    return process, port
