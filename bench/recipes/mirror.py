"""A mirror with a cache that is tried: the real client fetches through it, and then a client with nothing in its own caches, without the origin.

In: a trial, the origins, a client. Out: rows, and the number of requests by the `cache` word of the access log.
"""

import contextlib
import hashlib
import json
import os
import socket
import urllib.parse
from collections import Counter
from dataclasses import dataclass

from harness.machine import Failed
from harness.proxy import Proxy
from web import tools

from .page import changed
from .trial import free_port

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Origin:
    """Where a client of this machine fetches without a mirror. No page and no row contains its name."""

    host: str
    port: int
    path: str
    scheme: str

    @classmethod
    def of(cls, url, scheme="https"):
        """The recipe decides whether Handfast speaks TLS to the origin, so its URL must have this scheme."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != scheme or not parts.hostname:
            raise Failed(f"use the origin of this machine: its URL has the scheme `{parts.scheme}`, the recipe expects {scheme}")
        return cls(parts.hostname, parts.port or PORTS[scheme], parts.path.rstrip("/"), scheme)

    @property
    def url(self):
        default = self.port == PORTS[self.scheme]
        return f"{self.scheme}://{self.host}{'' if default else f':{self.port}'}{self.path}"

    def changes(self, example, gone):
        """What takes the place of a name in the text. `gone`: an address where no server listens takes the place of the backend."""
        backend = gone or f"{self.scheme}://{urllib.parse.urlsplit(self.url).netloc}"
        return {f'"{self.scheme}://{example}"': f'"{backend}"'}


@dataclass
class Visit:
    """What one client did: its files, and the lines of its requests in the access log."""

    files: tuple
    lines: list

    @property
    def words(self):
        return dict(Counter(line.get("cache", "none") for line in self.lines))

    @property
    def failed(self):
        """Requests without a complete response. One that the client aborted counts, too."""
        return [(line["method"], line.get("status"), line.get("reason", {}).get("cause")) for line in self.lines
                if "reason" in line or line["status"] >= 500]


class Mirror:
    """Handfast with the configuration of the page, which keeps its ports and its cache from one visit to the next."""

    def __init__(self, trial, changes, origins):
        """`changes`: for the ports of clients and whatever else differs. `origins`: names of the page, and their origins."""
        self.trial, self.changes, self.origins = trial, changes, origins
        self.cache = trial.folder / "cache"
        self.cache.mkdir(mode=0o700)

    def start(self, gone=None):
        """Starts it, or starts it again with the same cache."""
        trial, changes = self.trial, {"/var/cache/handfast": self.cache, **self.changes}
        for example, origin in self.origins.items():
            changes.update(origin.changes(example, gone))
        if gone and self.origins:
            # The URL of a site says this; an address does not.
            changes["[[service]]\n"] = '[[service]]\nmode = "http"\n'
        text = changed(trial.section.name, trial.section.block("toml"), changes)
        if trial.proxy:
            trial.proxy.stop()
        # The default address of the admin listener may be that of another Handfast on this machine.
        trial.proxy = Proxy(tools.handfast(), trial.folder, f'{text}\n[admin]\nlisten = "unix:{trial.folder}/admin.sock"\n')

    def visit(self, name, client, gone=None):
        """Runs a client in a new folder. It has `files`, and Handfast is stopped when this returns: then its log is complete."""
        folder = self.trial.folder / name
        folder.mkdir()
        with hidden(name, [origin.host for origin in self.origins.values()]):
            self.start(gone)
            files = client(folder)
        self.trial.proxy.stop()
        seen = Visit(files, requests(self.trial.proxy.process.log.read_text(errors="replace")))
        print(f"seen     {self.trial.folder.name}, {name}: {len(seen.lines)} requests: {seen.words}", flush=True)
        return seen

    def twice(self, client, words):
        """Two visits. `words`: what the log may have of the second one, which cannot reach the origin. Which of them depends on the origin, too:
        what it declares fresh is a hit, the rest is stale."""
        first = self.visit("first-client", client)
        self.trial.check("a client works, and what it fetches is kept", (first.files[0] > 0, first.words.get("stored", 0) > 0), (True, True))
        self.trial.check("all of its requests have complete responses", first.failed, [])
        with nothing_listens() as gone:
            again = self.visit("second-client", client, gone)
        self.trial.check(f"an empty client without the origin has the same {first.files[0]} files", again.files, first.files)
        self.trial.check("all of its requests have complete responses from the disk", (again.failed, set(again.words) - words), ([], set()))
        self.trial.check("and are as many as those of the first one", len(again.lines), len(first.lines))
        return again


@contextlib.contextmanager
def hidden(what, hosts):
    """Errors begin with what failed, and do not contain the names of these hosts."""
    try:
        yield
    except Failed as problem:
        text = str(problem)
        for host in hosts:
            text = text.replace(host, "ORIGIN")
        raise Failed(f"{what}: {text}") from None


def requests(log):
    """The lines of requests in the access log."""
    lines = [json.loads(text) for text in log.splitlines() if text.startswith('{"time"')]
    return [line for line in lines if "method" in line]


@contextlib.contextmanager
def nothing_listens():
    """An address that refuses connections. It is bound meanwhile, so that no other program can listen there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", free_port()))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def contents(*folders, ends=("",)):
    """Files below the folders whose names have one of these ends: how many, and one SHA-256 of their names and contents."""
    found, count = hashlib.sha256(), 0
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name.endswith(ends)):
            count += 1
            found.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return count, found.hexdigest()


def without(prefixes, **environment):
    """The beginning of a command whose client does not get the variables of this machine that begin so; with these instead."""
    old = [word for name in os.environ if name.upper().startswith(prefixes) for word in ("-u", name)]
    return ["env", *old, *(f"{name}={value}" for name, value in environment.items())]
