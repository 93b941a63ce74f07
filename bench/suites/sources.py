"""The sources of the suites: Debian's newest source packages, unpacked in a folder. Nothing of the machine's own apt is changed.

In: a folder, the name of a source package. Out: the folder of its source.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.machine import Failed

# Debian's suite with the newest versions.
SUITE = "sid"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def mirror():
    """The mirror that this machine's apt uses."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(file.read_text(errors="replace") for file in files if file.is_file())
    found = re.search(r"^URIs:\s*(\S+/debian)/?\s*$|^deb\s+(?:\[[^]]*\]\s+)?(\S+/debian)/?\s", text, re.MULTILINE)
    if not found:
        raise Failed("find the sources: apt has no mirror of Debian; hint: --stunnel FOLDER, --hitch FOLDER")
    return found[1] or found[2]


def source(name, folder):
    """Downloads and unpacks a source package with an apt that has its own lists. Deadline: 300 s for each command."""
    apt = folder / "apt"
    if not apt.exists():
        for part in ("state/lists/partial", "cache/archives/partial"):
            (apt / part).mkdir(parents=True)
        (apt / "status").touch()
        (apt / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {mirror()} {SUITE} main\n")
        (apt / "apt.conf").write_text(
            f'Dir::State "{apt}/state"; Dir::State::status "{apt}/status"; Dir::Cache "{apt}/cache"; Dir::Etc::sourcelist "{apt}/sources.list"; '
            'Dir::Etc::sourceparts "-"; APT::Sandbox::User "root";\n')
    run(folder, apt, "apt-get", "update")
    place = folder / f"{name}-source"
    place.mkdir()
    run(place, apt, "apt-get", "source", "--download-only", name)
    archive = next(iter(sorted(place.glob("*.orig.tar.*z*"))), None)
    if not archive:
        raise Failed(f"unpack the source of {name}: no .orig.tar in it")
    shutil.unpack_archive(archive, place)
    return next(path for path in place.iterdir() if path.is_dir())


def run(folder, apt, *words):
    done = subprocess.run(words, cwd=folder, env={**os.environ, "APT_CONFIG": str(apt / "apt.conf")}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(words)}: {' / '.join(done.stderr.strip().splitlines()[-3:])}")
