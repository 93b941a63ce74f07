"""Clients of chat.js. In: its URL, the file of the authority, the cookie of the first client or nothing. Out: what they saw, as JSON."""

import asyncio
import json
import ssl
import sys

from websockets.asyncio.client import connect

URL, AUTHORITY, *COOKIE = sys.argv[1:]
TRUST = ssl.create_default_context(cafile=AUTHORITY)


def open_chat(cookie, protocols=("chat.v1", "chat.v2")):
    return connect(URL, ssl=TRUST, subprotocols=list(protocols), additional_headers={"Cookie": cookie} if cookie else {}, proxy=None)


async def main():
    seen = {}
    async with open_chat(COOKIE[0] if COOKIE else None) as first:
        seen["server"], seen["subprotocol"] = await first.recv(), first.subprotocol
        given = first.response.headers.get("Set-Cookie")
        seen["cookie"] = given.split(";")[0] if given else None
        cookie = seen["cookie"] or COOKIE[0]
        others = [await open_chat(cookie) for _ in range(5)]
        seen["servers of the others"] = sorted({await other.recv() for other in others})
        await first.send("hello")
        seen["from the first"] = [await client.recv() for client in (first, *others)]
        await others[0].send("x" * 100_000)
        seen["from another"] = sorted({len(await client.recv()) for client in (first, *others)})
        waiter = await first.ping()
        seen["ping of the client"] = (await waiter) >= 0
        await first.send("ping")
        seen["ping of the server"] = await first.recv()
        await others[1].close(4002, "tired")
        seen["close of a client"] = await first.recv()
        await first.send("bye")
        await first.wait_closed()
        seen["close of the server"] = [first.close_code, first.close_reason]
        for other in others:
            await other.close()
    print(json.dumps(seen))


asyncio.run(main())
