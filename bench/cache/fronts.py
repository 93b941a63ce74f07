"""The caches under test, each as one adapter: Handfast, nginx, Varnish (TLS by hitch) and Apache.

In: a backend's port, a certificate. Out: a running cache with an empty store, a plain and a TLS port. Each is configured as its own documentation
has it for a shared cache that follows the origin's fields; where a default departs from that, the configuration says so.
"""

import os
import shutil
from pathlib import Path

from harness import machine
from harness.machine import Process
from web import tools
from web.fronts import Front

SERVERS = Path(__file__).resolve().parent / "servers"


class Cache(Front):
    """One cache. `store`: the folder of its objects, which it makes or finds empty."""

    template = ""

    def __init__(self, folder, certificate, options=None):
        super().__init__(folder, certificate, {"size": 1 << 30, **(options or {})})
        self.store = self.folder / "store"
        self.store.mkdir(mode=0o700, exist_ok=True)

    def configuration(self):
        route, text = self.routes[0], (SERVERS / self.template).read_text()
        words = {"FOLDER": self.folder, "STORE": self.store, "PLAIN": route.plain, "TLS": route.tls, "BACKEND": route.backend,
                 "CERTIFICATE": self.certificate, "THREADS": self.options["threads"], "SIZE": self.options["size"],
                 "USER": "user root;" if os.geteuid() == 0 else "", **self.words()}
        for name, value in words.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    def words(self):
        """More words of its template."""
        return {}


class Handfast(Cache):
    name = "handfast"
    judged = True
    template = "handfast.toml"

    def words(self):
        return {"MORE": "\n".join(self.options.get("cache", []))}

    def command(self, config):
        return [tools.handfast(), "proxy", "-c", config]


class Nginx(Cache):
    name = "nginx"
    template = "nginx.conf"

    def command(self, config):
        return [tools.find("nginx"), "-c", config, "-p", self.folder]


class Apache(Cache):
    name = "apache"
    template = "apache.conf"

    def words(self):
        return {"USER": "User www-data\nGroup www-data" if os.geteuid() == 0 else ""}

    def command(self, config):
        # It refuses to serve as root, so its files belong to Debian's user for it.
        if os.geteuid() == 0:
            for folder in (self.folder, self.store):
                shutil.chown(folder, "www-data")
        return [tools.find("apache2"), "-f", config, "-DFOREGROUND"]


class Varnish(Cache):
    """Varnish has no TLS of its own here: hitch stands before it, as its documentation proposes."""

    name = "varnish"
    template = "varnish.vcl"
    # It caches for two minutes what says nothing, serves 10 s longer than that, and does not keep what is stale: set to what RFC 9111 expects.
    PARAMETERS = [word for setting in ("feature=+http2", "default_ttl=0", "default_grace=0", "default_keep=3600") for word in ("-p", setting)]

    def start(self, routes):
        self.proxied = machine.free_port()
        routes[0].plain, routes[0].tls = machine.free_port(), machine.free_port()
        hitch = self.folder / "hitch.conf"
        user = 'user = "root"\n' if os.geteuid() == 0 else ""
        hitch.write_text(f'frontend = "[127.0.0.1]:{routes[0].tls}"\nbackend = "[127.0.0.1]:{self.proxied}"\npem-file = "{self.certificate}"\n'
                         f'workers = {self.options["threads"]}\nwrite-proxy-v2 = on\nalpn-protos = "h2, http/1.1"\n{user}')
        self.hitch = Process([tools.find("hitch"), f"--config={hitch}"], self.options["cores"], self.folder / "hitch.log", self.folder)
        return super().start(routes)

    def stop(self):
        super().stop()
        self.hitch.stop()

    def members(self):
        return super().members() + list(machine.tree(self.hitch.pid))

    def command(self, config):
        route = self.routes[0]
        # In memory: the storage that its documentation proposes first.
        return [tools.find("varnishd"), "-F", "-f", config, "-n", self.folder / "work", "-a", f"127.0.0.1:{route.plain}",
                "-a", f"127.0.0.1:{self.proxied},PROXY", "-T", "none", "-s", f"malloc,{self.options['size']}", "-j", "none",
                *self.PARAMETERS]


FRONTS = {front.name: front for front in (Handfast, Nginx, Varnish, Apache)}
PROGRAMS = {"nginx": ["nginx"], "varnish": ["varnishd", "hitch"], "apache": ["apache2"], "handfast": []}
VERSIONS = {"nginx": ["nginx", "-v"], "varnish": ["varnishd", "-V"], "apache": ["apache2", "-v"]}
