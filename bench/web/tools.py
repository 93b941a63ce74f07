"""Where foreign programs are: packages of other languages live in `target/tools`, which `scripts/install-missing garden` fills.

In: a name. Out: a path, or None when it is not installed. Also the Python of that folder, for tools that need its packages.
"""

import os
import shutil
import sys
from pathlib import Path

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
