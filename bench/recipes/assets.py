"""The recipe for a web site behind a cache: assets that never change, pages that may be old for a while, personal pages.

In: a trial. Out: its rows.
"""

import re

from harness.machine import wait_until
from web import tools

from .mirror import Mirror, requests
from .trial import free_port, run

# The names of assets have the hash of their content.
PAGE = '<!doctype html><title>A site</title><p id="shown"></p><script src="/assets/app.{hash}.js"></script>\n'
SCRIPT = 'document.getElementById("shown").textContent = "version {hash}";\n'


class Site:
    """nginx, and Handfast in front of it. Both are started again with the same files."""

    def __init__(self, trial):
        self.trial, self.root, self.port, self.front = trial, trial.folder / "www", free_port(), free_port()
        (self.root / "assets").mkdir(parents=True)
        self.mirror = Mirror(trial, {"*:443": f"127.0.0.1:{self.front}", "127.0.0.1:8080": f"127.0.0.1:{self.port}"}, {})
        self.nginx = None

    def start_nginx(self, changes):
        if self.nginx:
            self.nginx.stop()
        self.nginx = self.trial.nginx(self.port, {"127.0.0.1:8080": f"127.0.0.1:{self.port}", "/srv/www": self.root, **changes})

    def start(self, changes):
        """Handfast."""
        self.mirror.changes.update(changes)
        self.mirror.start()
        self.trial.port = self.front

    def deploy(self, version):
        (self.root / f"assets/app.{version}.js").write_text(SCRIPT.format(hash=version))
        (self.root / "index.html").write_text(PAGE.format(hash=version))

    def purge(self):
        """The command of the page, for the name of the trial."""
        words = next(line for line in self.trial.section.block("console").splitlines() if line.startswith("$ handfast")).split()[2:]
        words = [word.replace("www.example.org", "localhost") for word in words]
        return run([tools.handfast(), *words, "-c", self.trial.proxy.config])

    def shown(self, name):
        """What a browser without a cache shows."""
        rules = f"MAP localhost 127.0.0.1:{self.front}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        return run([tools.find("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                    "--no-proxy-server", "--ignore-certificate-errors", f"--host-resolver-rules={rules}",
                    f"--user-data-dir={self.trial.folder / name}", "--dump-dom", "https://localhost/"])


def assets(trial):
    site = Site(trial)
    site.deploy("3f2a")
    site.start_nginx({})
    site.start({})
    for version, word in (("1.1", "fwd=uri-miss"), ("2", "hit"), ("1.1", "hit"), ("2", "hit")):
        for path in ("/", "/assets/app.3f2a.js"):
            answer = trial.curl(path, f"--http{version}")
            trial.check(f"HTTP/{version}: {path}: {word}", (answer.status, word in answer.fields.get("cache-status", "").split("; ")), (200, True))
    personal(trial)
    trial.check("Chromium shows the page", "version 3f2a" in site.shown("chromium-before"))
    site.deploy("77b0")
    trial.check("after a deployment the page is the old one", "app.3f2a.js" in trial.curl("/").text)
    removed = site.purge()
    print(f"seen     assets: purge: {removed}", end="", flush=True)
    trial.check("and the new one after the purge", "app.77b0.js" in trial.curl("/").text)
    trial.check("Chromium shows the new one", "version 77b0" in site.shown("chromium-after"))
    without_nginx(trial, site)
    old_pages(trial, site)


def personal(trial):
    """What one client receives is for no other one."""
    for path in ("/account", "/sign-in"):
        for version in ("1.1", "2"):
            one, other = (trial.curl(path, f"--http{version}", "-b", f"user={user}") for user in ("alice", "bob"))
            trial.check(f"HTTP/{version}: {path}: each client has its own page", ("alice" in one.text, "bob" in other.text), (True, True))
    lines = trial.log(lambda line: line.get("path") in ("/account", "/sign-in"), 8)
    trial.check("the log has none of them from the cache", {line["cache"] for line in lines} <= {"miss", "bypass"})


def without_nginx(trial, site):
    site.nginx.stop()
    asked = re.findall(r"GET (/assets/\S+)", (trial.folder / "nginx-access.log").read_text())
    trial.check("nginx was asked once for each asset", asked, ["/assets/app.3f2a.js", "/assets/app.77b0.js"])
    site.start({})
    for version in ("1.1", "2"):
        seen = {path: trial.curl(path, f"--http{version}").status for path in ("/", "/assets/app.77b0.js", "/account", "/sign-in")}
        trial.check(f"HTTP/{version}: without nginx: page, asset, personal pages", list(seen.values()), [200, 200, 502, 502])
    trial.check("Chromium shows the page without nginx", "version 77b0" in site.shown("chromium-without"))
    trial.proxy.stop()
    lines = requests(trial.proxy.process.log.read_text(errors="replace"))
    seen = {line["path"]: line["cache"] for line in lines if line["status"] == 200}
    trial.check("page and asset are hits", seen, {"/": "hit", "/assets/app.77b0.js": "hit"})


def old_pages(trial, site):
    """The times of the page are minutes; here they are seconds."""
    site.start_nginx({'"max-age=60"': '"max-age=1"'})
    site.start({})
    site.purge()
    trial.curl("/")
    site.deploy("c41d")
    seen = []

    def is_new():
        seen.append(trial.curl("/"))
        return "app.c41d.js" in seen[-1].text
    wait_until("the new page", is_new, 20, trial.proxy.process)
    # `hit; ttl=0`: it is as old as `max-age`, and the client did not wait for nginx.
    stale = [answer for answer in seen if re.search("hit; ttl=(0|-)", answer.fields["cache-status"])]
    trial.check("a stale page is served while nginx is asked", (bool(stale), {answer.status for answer in seen}), (True, {200}))
    site.start({'stale-while-revalidate = "10m"': 'stale-while-revalidate = "1s"'})
    site.nginx.stop()
    line = wait_until("a page that nginx could not confirm", lambda: stale_line(trial), 20, trial.proxy.process)
    trial.check("a stale page is served when nginx fails", line["status"], 200)


def stale_line(trial):
    trial.curl("/")
    lines = requests(trial.proxy.process.log.read_text(errors="replace").rpartition("\n")[0])
    return next((line for line in lines if line.get("cache") == "stale"), None)


RECIPES = {
    "assets": (assets, "http/recipes-cache.md", "A web site's assets", ("Handfast", "nginx", "Chromium", "curl")),
}
