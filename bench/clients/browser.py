"""Headless Chromium: a page with ten resources, an upload by fetch, a WebSocket."""

import time
import urllib.request

from harness.machine import Process
from web import tools

from .checks import Skip, check


@check("chromium", "page, ten resources, upload, WebSocket")
def page(place):
    program = tools.find("chromium") or tools.find("chromium-headless-shell")
    if not program:
        raise Skip("chromium is not installed")
    words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-proxy-server",
             "--ignore-certificate-errors", f"--user-data-dir={place.folder}/chromium", f"{place.url}/page"]
    browser = Process(words, None, place.folder / "chromium.log")
    try:
        result = wait_for_result(place.extra["backend"])
    finally:
        browser.stop()
    for word in ("resources=10", "upload=1048576", "socket=garden", "protocol=h2"):
        assert word in result.split(), f"{word} is missing: {result or browser.said()}"


def wait_for_result(backend, seconds=40):
    """What the page posted to the backend; empty after that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with urllib.request.urlopen(f"http://127.0.0.1:{backend}/result", timeout=10) as answer:
            if found := answer.read().decode():
                return found
        time.sleep(0.2)
    return ""
