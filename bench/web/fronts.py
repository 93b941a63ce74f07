"""The fronts under test: HAProxy, nginx and Handfast, each as one adapter (configuration, command, access log).

In: routes (a backend's port, whether it speaks HTTP/2), a certificate. Out: a running front with a plain and a TLS port for each route,
and the requests that its access log has.
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from harness import machine
from harness.machine import Failed, Process

from . import tools


@dataclass
class Route:
    """One backend behind the front: `plain` is the front's HTTP port, `tls` its TLS port with h2 and http/1.1."""

    name: str
    backend: int
    backend_h2: bool = False
    plain: int = 0
    tls: int = 0


class Front:
    """A front; subclasses know the configuration and the command."""

    name = ""
    # Whether the expected verdicts of the tables are this front's rules; else differences are notes.
    judged = False
    prior_knowledge = False

    def __init__(self, folder, certificate, options=None):
        """`options`: {"log": bool, "threads": int, "cores": set, "mode": "http" | "tcp", "upstream": idle connections, "newest": bool}."""
        self.folder, self.certificate = Path(folder) / self.name, certificate
        self.folder.mkdir(parents=True, exist_ok=True)
        self.options = {"log": True, "threads": 1, "cores": None, "mode": "http", "certificate": certificate,
                        **(options or {})}
        self.log, self.output = self.folder / "access.log", self.folder / "output.log"
        self.routes, self.process = [], None

    def program(self):
        """The installed one, or that of Debian's newest suite."""
        return tools.newest(self.name) if self.options.get("newest") else tools.find(self.name)

    def start(self, routes):
        """Starts it with a plain and a TLS listener for each route; returns when every port accepts."""
        for route in routes:
            route.plain, route.tls = route.plain or machine.free_port(), route.tls or machine.free_port()
        self.routes, config = routes, self.folder / "front.conf"
        config.write_text(self.configuration())
        self.log.touch()
        self.process = Process(self.command(config), self.options["cores"], self.output, self.folder)
        for route in routes:
            machine.wait_for_port(route.plain, self.process)
            machine.wait_for_port(route.tls, self.process)
        return self

    def stop(self):
        if self.process:
            self.process.stop()

    def members(self):
        """The pids of its processes."""
        if not self.process.running():
            raise Failed(f"{self.name} ended: {self.process.said()}")
        return list(machine.tree(self.process.pid))

    def rss_kib(self):
        """Resident memory of all its processes."""
        return machine.memory_kib(self.members())[0]

    def requests(self, offset=0):
        """The requests in its log after that many bytes: [{"method", "path", "status", "host"}], and the new offset."""
        text = self.log.read_bytes()[offset:]
        whole = text[: text.rfind(b"\n") + 1]
        found = []
        for line in whole.decode("utf-8", "replace").split("\n"):
            try:
                entry = json.loads(line, strict=False)
            except ValueError:
                continue
            if isinstance(entry, dict) and "method" in entry:
                found.append(entry)
        return found, offset + len(whole)


class HAProxy(Front):
    name = "haproxy"
    prior_knowledge = True
    GLOBAL = """global
    nbthread {threads}
    maxconn {files}
    log stdout len 8192 format raw local0
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode {mode}
    {log}
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout tunnel 10m
    timeout http-request 10s
"""
    LOG = r"""log global
    log-format '{"method":"%[capture.req.method,json(utf8s)]","path":"%[capture.req.uri,json(utf8s)]","status":%ST,"host":"%si"}'
    option dontlognull
    option forwardfor
    http-reuse always"""

    def configuration(self):
        http = self.options["mode"] == "http"
        log = self.LOG if self.options["log"] else "option forwardfor\n    http-reuse always"
        text = self.GLOBAL.format(threads=self.options["threads"], mode=self.options["mode"], log=log if http else "",
                                  files=9500)
        for number, route in enumerate(self.routes):
            alpn = " alpn h2,http/1.1" if http else ""
            text += (f"frontend f{number}\n    bind 127.0.0.1:{route.plain}\n"
                     f"    bind 127.0.0.1:{route.tls} ssl crt {self.options['certificate']}{alpn} backlog 4096\n"
                     f"    default_backend b{number}\nbackend b{number}\n"
                     f"    server s 127.0.0.1:{route.backend}{' proto h2' if route.backend_h2 else ''}\n")
        return text

    def requests(self, offset=0):
        """`capture.req.uri` is empty for the target `*`."""
        found, offset = super().requests(offset)
        return [{**entry, "path": "*" if entry["path"] == "-" else entry["path"]} for entry in found], offset

    def command(self, config):
        # Its log goes to standard output.
        self.log = self.output
        return [self.program(), "-db", "-f", config]


class Nginx(Front):
    name = "nginx"
    # As root, its workers would be another user, without access to this folder.
    HEAD = """{user}daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
worker_processes {threads};
worker_rlimit_nofile 20000;
events {{ worker_connections 20000; multi_accept on; }}
http {{
    log_format requests escape=json '{{"method":"$request_method","path":"$request_uri","status":$status,"host":"$host"}}';
    access_log {log};
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi; fastcgi_temp_path {folder}/fastcgi;
    keepalive_requests 1000000; keepalive_timeout 60s;
    client_max_body_size 0; proxy_request_buffering off; proxy_buffering on;
    map $http_upgrade $connection_field {{ default upgrade; '' ''; }}
"""
    SERVER = """    upstream u{number} {{ server 127.0.0.1:{route.backend}; keepalive 512; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{route.plain} backlog=4096;
        listen 127.0.0.1:{route.tls} ssl http2 backlog=4096;
        ssl_certificate {certificate}; ssl_certificate_key {certificate};
        location / {{ {location} }}
    }}
"""
    HTTP = ("proxy_pass http://u{number}; proxy_http_version 1.1; proxy_set_header Host $http_host;"
            " proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_field;"
            " proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
    GRPC = "grpc_pass grpc://u{number}; grpc_set_header Host $http_host;"

    def configuration(self):
        log = f"{self.log} requests" if self.options["log"] else "off"
        user = "user root;\n" if os.geteuid() == 0 else ""
        text = self.HEAD.format(user=user, folder=self.folder, threads=self.options["threads"], log=log)
        for number, route in enumerate(self.routes):
            location = (self.GRPC if route.backend_h2 else self.HTTP).format(number=number)
            text += self.SERVER.format(number=number, route=route, certificate=self.options["certificate"], location=location)
        return text + "}\n"

    def command(self, config):
        return [self.program(), "-c", config, "-p", self.folder]


class Handfast(Front):
    name = "handfast"
    judged = True
    SERVICE = """[[service]]
name = "{name}"
listen = ["127.0.0.1:{port}"]
{clients}
backend = "127.0.0.1:{route.backend}"
{mode}
"""

    def configuration(self):
        log = self.log if self.options["log"] else "off"
        text = (f'[process]\nthreads = {self.options["threads"]}\n[admin]\nlisten = "off"\n[access-log]\nto = "{log}"\n')
        # The same bound on requests for each connection to the backend as in the other configurations.
        mode = 'mode = "http"\n[service.http]\npool-requests = 1000000' if self.options["mode"] == "http" else ""
        for route in self.routes:
            version = '\nbackend-version = "h2"' if route.backend_h2 and mode else ""
            for name, port, clients in (
                (f"{route.name}-plain", route.plain, "client-tls = false"),
                (f"{route.name}-tls", route.tls, f'certificate = "{self.options["certificate"]}"'),
            ):
                text += self.SERVICE.format(name=name, port=port, clients=clients, route=route, mode=mode + version)
        return text

    def command(self, config):
        return [tools.handfast(), "proxy", "-c", config]


class Naive(Front):
    """A proxy with faults, HTTP/1 only: the garden must find them."""

    name = "naive"

    def configuration(self):
        return json.dumps({"log": str(self.log), "certificate": str(self.options["certificate"]),
                           "routes": [vars(route) for route in self.routes]})

    def command(self, config):
        return [sys.executable, Path(__file__).parent / "naive.py", config]


FRONTS = {front.name: front for front in (Handfast, HAProxy, Nginx, Naive)}


def make(name, folder, certificate, options=None):
    """The front of that name, not yet started."""
    if name not in FRONTS:
        raise Failed(f"unknown front {name}: expected {', '.join(FRONTS)}")
    return FRONTS[name](folder, certificate, options)
