"""A backend that sends everything back, in one thread: `echo.py PORT`. For checks; the benchmark has one in Rust, which costs less."""

import asyncio
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import machine  # noqa: E402


class Echo(asyncio.Protocol):
    """One connection. It ends when the client has ended and has everything back."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

    def pause_writing(self):
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


def start(port, log, cores=None):
    """A running one."""
    process = machine.Process([sys.executable, __file__, port], cores, log)
    machine.wait_for_port(port, process)
    return process


async def main(port):
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
