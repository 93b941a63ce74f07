"""The program of scripts/cache-soak: random traffic through the cache of Handfast, while it is killed, reloaded and purged."""

import argparse
import random
import signal
import subprocess
import time
from collections import Counter

from harness import machine, peers, rows
from web import fronts, tools

from . import traffic
from .fronts import FRONTS

# Far less than the origin has, so that objects are evicted all the time.
SIZE = 4 << 20


def main():
    parser = argparse.ArgumentParser(prog="scripts/cache-soak", description="Random traffic through the cache, each response of which is checked.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats the choices of a run, though not its moments")
    options = parser.parse_args()
    return rows.main("cache-soak", lambda found, folder: soak(found, folder, options), ("openssl",))


def soak(table, folder, options):
    origin = traffic.Origin()
    cache = FRONTS["handfast"](folder, peers.make_certificates(folder)["ecdsa"], {"threads": 2, "size": SIZE})
    cache.start([fronts.Route("cache", origin.port)])
    clients = [traffic.Client(cache.routes[0].plain, number, options.seed) for number in range(traffic.USERS)]
    for client in clients:
        client.start()
    done = disturb(cache, options)
    for client in clients:
        client.stops = True
    for client in clients:
        client.join(40)
    seen = sum((client.seen for client in clients), Counter())
    print(f"seen     seed {options.seed}: {dict(done)}; {', '.join(f'{word}: {count}' for word, count in seen.most_common(12))}", flush=True)
    wrong = [problem for client in clients for problem in client.wrong]
    table.check("each client receives what is for it", "; ".join(wrong[:5]))
    table.check("responses come from the cache", "" if seen["200 hit"] > 100 else f"{seen['200 hit']} only")
    table.check("no client waits for ever", "; ".join(client.user for client in clients if client.is_alive()))
    table.check("no panic", "\n".join(line for line in cache.output.read_text().splitlines() if "panicked" in line))


def disturb(cache, options):
    """What happens to the cache meanwhile: {what: how often}."""
    choose, done, end = random.Random(options.seed), Counter(), time.monotonic() + options.seconds
    while time.monotonic() < end:
        time.sleep(choose.uniform(0.5, 3))
        what = choose.choice(["kill", "reload", "purge", "purge", "nothing", "nothing"])
        done[what] += 1
        if what == "kill":
            cache.process._signal(signal.SIGKILL)
            cache.process.process.wait()
            cache.process = machine.Process(cache.command(cache.folder / "front.conf"), None, cache.output, cache.folder)
            machine.wait_for_port(cache.routes[0].plain, cache.process)
        elif what == "reload":
            cache.process._signal(signal.SIGHUP)
        elif what == "purge":
            prefix = f"http://127.0.0.1:{cache.routes[0].plain}/p{choose.randrange(15)}"
            subprocess.run([tools.handfast(), "cache", "purge", "--prefix", prefix, "--at", f"unix:{cache.folder}/admin.sock"], capture_output=True, timeout=20,
                           check=True)
    return done
