"""Clients that are programs: Go, Node, Java. Each prints a line for each check (`ok NAME`, `failed NAME: REASON`)."""

import os
import subprocess
from pathlib import Path

from web import tools

from .checks import Skip, check

HERE = Path(__file__).resolve().parent


def lines(words, **environment):
    """The rows of one program's output."""
    if not tools.find(words[0]):
        raise Skip(f"{words[0]} is not installed")
    words = [tools.find(words[0]), *words[1:]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False, env={**os.environ, **environment})
    rows = []
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        name, _, reason = rest.partition(": ")
        if word in ("ok", "failed"):
            rows.append((rest if word == "ok" else name, None if word == "ok" else reason[:200] or "no reason"))
    assert rows and done.returncode == 0, f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}"
    return rows


@check("go", "net/http")
def go(place):
    return lines(["client-go", place.url, place.certificate])


@check("node", "fetch, http2, ws")
def node(place):
    return lines(["node", "--no-warnings", str(HERE / "client.js"), str(place.tls)], NODE_PATH=str(tools.TOOLS / "node_modules"))


@check("java", "HttpClient")
def java(place):
    return lines(["java", str(HERE / "Client.java"), str(place.tls)])
