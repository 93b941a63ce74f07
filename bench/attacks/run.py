"""The program of scripts/http-attacks: a front, each attack in turn, a table, the exit code."""

import argparse
import tempfile
import time
from pathlib import Path

from harness import machine, peers
from harness.machine import Failed
from web import fronts, tools
from web.frames import DATA, END_STREAM, WINDOW_UPDATE, Peer, frame, headers, request

from . import measure, over_h1, over_h2

ATTACKS = {**over_h2.ATTACKS, **over_h1.ATTACKS}
# Bounds of what one attacker may cost.
GROWTH_MIB, RATIO = 16, 2
TINY, SIZE = 10000, 10


def tiny_frames(front):
    """Honest traffic that looks like a flood: 10,000 DATA frames of 10 bytes, each echoed, with a slow reader. A reason, or None when it passed."""
    peer = Peer(front.routes[0].tls)
    peer.send(headers(1, request(b"/echo", method=b"POST"), end=False))
    sent, back, end = 0, 0, time.monotonic() + 60
    while back < TINY * SIZE and time.monotonic() < end:
        if sent < TINY and sent - back // SIZE < 3000:
            numbers = range(sent, sent + 100)
            peer.send(b"".join(frame(DATA, END_STREAM if number == TINY - 1 else 0, 1, b"0123456789") for number in numbers))
            sent += 100
            time.sleep(0.001)
        found = peer.next(time.monotonic() + (0.002 if sent < TINY else 10))
        if found and found[0] == DATA and found[3]:
            back += len(found[3])
            # A slow reader: the windows open late, and a little at a time.
            more = len(found[3]).to_bytes(4, "big")
            peer.send(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, 1, more))
        state = peer.streams.get(1, {})
        if peer.goaway is not None or str(state.get("end")).startswith("RST") or peer.ended:
            return f"after {sent} frames and {back} bytes back: GOAWAY {peer.goaway}, {state.get('end')}"
        if not found and sent >= TINY:
            return f"{back} of {TINY * SIZE} bytes came back, then nothing for 10 s"
    peer.close()
    return None if back == TINY * SIZE else f"{back} of {TINY * SIZE} bytes came back within 60 s"


def judge(cost):
    """The bounds that are broken, in words."""
    wrong = [f"RSS grew by {cost.growth:.1f} MiB, bound {GROWTH_MIB}"] if cost.growth > GROWTH_MIB else []
    wrong += [f"p99 of others is {cost.ratio:.1f} × quiet, bound {RATIO}"] if cost.ratio > RATIO else []
    return wrong + ([f"{cost.failed} requests of others failed"] if cost.failed else [])


def start(folder, name):
    """Backend and front, each on its core."""
    _, port = tools.client_backend(folder / "backend.log", {machine.LOAD_CORE})
    certificate = peers.make_certificates(folder)["ecdsa"]
    front = fronts.make(name, folder, certificate, {"cores": {machine.PROXY_CORE}, "log": False})
    return front.start([fronts.Route("web", port)])


def main():
    parser = argparse.ArgumentParser(prog="scripts/http-attacks", description=__doc__.split("\n")[0])
    parser.add_argument("--front", default="handfast", help="handfast (default; its program is $HANDFAST), haproxy or nginx")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a window")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of a quiet and an attacked window")
    parser.add_argument("words", nargs="*", help="only attacks that have one of these words in their name")
    options = parser.parse_args()
    chosen = [name for name in [*ATTACKS, "tiny frames"] if not options.words or any(word in name for word in options.words)]
    failed = 0
    print(f"{'attack':<20}{'RSS +MiB':>10}{'quiet p99 ms':>14}{'attacked ms':>13}{'ratio':>7}  result", flush=True)
    for name in chosen:
        # A front for each attack: memory that one leaves behind is not the next one's.
        with tempfile.TemporaryDirectory(prefix="handfast-attacks.", ignore_cleanup_errors=True) as folder:
            try:
                front = start(Path(folder), options.front)
                wrong, figures = one(front, name, options)
            except (Failed, OSError) as problem:
                print(f"http-attacks: {name}: {problem}")
                return 2
            finally:
                machine.stop_all()
        failed += bool(wrong)
        print(f"{name:<20}{figures}  {'; '.join(wrong) or 'ok'}", flush=True)
    print(f"\n{options.front}: {len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


def one(front, name, options):
    """(what is wrong, figures as text)."""
    if name == "tiny frames":
        reason = tiny_frames(front)
        return [reason] if reason else [], " " * 44
    cost = measure.cost(front, ATTACKS[name], options.seconds, options.rounds)
    return judge(cost), f"{cost.growth:>10.1f}{cost.quiet:>14.2f}{cost.attacked:>13.2f}{cost.ratio:>7.2f}"
