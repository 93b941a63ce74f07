"""The programs and packages of recipes: whether they are installed, in which version, and how they are installed.

In: names. Out: versions, and the commands that install what is missing.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from web import tools

REQUIREMENTS = tools.ROOT / "bench/garden/requirements.txt"
MODULES = tools.TOOLS / "node_modules"
PYTHON = tools.VENV / "bin/python"
PHP_FPM = next((str(path) for path in sorted(Path("/usr/sbin").glob("php-fpm*"))), "php-fpm")


@dataclass
class Program:
    """One that a recipe needs. `kind`: the package manager, `package`: its name there, `version`: the command that prints the version, or
    the file that has it."""

    kind: str
    package: str
    version: tuple[str, ...] | Path

    def find_version(self):
        """Its version, or None when it is not installed."""
        if isinstance(self.version, Path):
            return self._version_in_file()
        program = tools.find(self.version[0])
        if not program:
            return None
        # A Go program that was installed from its module does not know its version; the build information in the file has it.
        words = [tools.find("go") or "go", "version", "-m", program] if self.kind == "go" else [program, *self.version[1:]]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        pattern = r"\tmod\t\S+\tv(\S+)" if self.kind == "go" else r"(\d+\.\d+[\w.]*)"
        found = re.search(pattern, done.stdout + done.stderr)
        return found[1] if found and done.returncode == 0 else None

    def _version_in_file(self):
        if not self.version.exists():
            return None
        text = self.version.read_text()
        return json.loads(text)["version"] if self.version.suffix == ".json" else text.strip()

    @property
    def command(self):
        """What installs it."""
        if self.kind == "apt":
            return [str(tools.ROOT / "scripts/install-missing"), "package", *self.package.split()]
        if self.kind == "toolchain":
            return [str(tools.ROOT / "scripts/install-toolchain")]
        if self.kind == "pip":
            return [str(PYTHON), "-m", "pip", "install", "-q", pinned(self.package)]
        if self.kind == "npm":
            return ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tools.TOOLS), self.package]
        return ["env", f"GOBIN={tools.TOOLS}", "GOFLAGS=-modcacherw", "go", "install", self.package]


def pinned(package):
    """The version of a Python package that all tools use."""
    return next((line for line in REQUIREMENTS.read_text().splitlines() if line.startswith(f"{package}==")), package)


def python_package(name):
    return Program("pip", name, (str(PYTHON), "-c", f"from importlib.metadata import version as v; print(v('{name}'))"))


PROGRAMS = {
    "Handfast": Program("make release", "", ("handfast", "--version")),
    "curl": Program("apt", "curl", ("curl", "--version")),
    "OpenSSL": Program("apt", "openssl", ("openssl", "version")),
    "nginx": Program("apt", "nginx", ("nginx", "-v")),
    "PHP": Program("apt", "php-fpm php-xml php-mysql", (PHP_FPM, "-v")),
    "DokuWiki": Program("apt", "dokuwiki", Path("/usr/share/dokuwiki/VERSION")),
    "WordPress": Program("apt", "wordpress", ("dpkg-query", "-W", "-f", "${Version}", "wordpress")),
    "MariaDB": Program("apt", "mariadb-server", ("mariadbd", "--version")),
    "Docker Registry": Program("apt", "docker-registry", ("docker-registry", "--version")),
    "skopeo": Program("apt", "skopeo", ("skopeo", "--version")),
    "Prometheus": Program("apt", "prometheus", ("prometheus", "--version")),
    "Node.js": Program("apt", "nodejs npm", ("node", "--version")),
    "ws": Program("npm", "ws@8", MODULES / "ws/package.json"),
    "eventsource": Program("npm", "eventsource@4", MODULES / "eventsource/package.json"),
    "http-cache-tests": Program("npm", "http-cache-tests@0.4.5", MODULES / "http-cache-tests/package.json"),
    "websockets": python_package("websockets"),
    "grpcio": python_package("grpcio"),
    "Maven": Program("apt", "maven", ("mvn", "--version")),
    "Java": Program("apt", "default-jdk-headless", ("javac", "-version")),
    "npm": Program("apt", "nodejs npm", ("npm", "--version")),
    "apt": Program("apt", "apt", ("apt-get", "--version")),
    "Cargo": Program("toolchain", "rustup", ("cargo", "--version")),
    "pip": Program("apt", "python3-pip", ("python3", "-m", "pip", "--version")),
    "Chromium": Program("apt", "chromium", ("chromium", "--version")),
    "htpasswd": Program("apt", "apache2-utils", ("dpkg-query", "-W", "-f", "${Version}", "apache2-utils")),
    "oauth2-proxy": Program("go", "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6", ("oauth2-proxy", "--version")),
}


def missing(names):
    """Those that are not installed."""
    return [name for name in names if not PROGRAMS[name].find_version()]


def describe(names):
    """Where the missing ones come from."""
    return ", ".join(f"{name} ({PROGRAMS[name].kind} package {PROGRAMS[name].package})" for name in names)


def install(names):
    """Installs the missing ones; what cannot be installed stays missing, and its recipe reports it."""
    absent = missing(names)
    if any(PROGRAMS[name].kind == "pip" for name in absent) and not PYTHON.exists():
        subprocess.run(["python3", "-m", "venv", str(tools.VENV)], check=False)
    for name in absent:
        print(f"installing {name}", flush=True)
        subprocess.run(PROGRAMS[name].command, check=False, env={**os.environ, "PATH": os.environ["PATH"] + tools.SYSTEM})
