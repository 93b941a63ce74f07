"""Handfast with any configuration.

In: the program, a folder, the configuration. Out: a running proxy.
"""

from .machine import Process


class Proxy:
    """A running proxy. Its ports are those of `machine.free_port`: one that the kernel chose could be one that was promised to another server."""

    def __init__(self, program, folder, configuration, cores=None):
        """Returns when it is ready, without a connection to it. Deadline: 10 s."""
        self.config, log = folder / "handfast.toml", folder / "handfast.log"
        self.config.write_text(configuration)
        # The log is appended to, and what an earlier one wrote is not this one's.
        log.unlink(missing_ok=True)
        self.process = Process([program, "proxy", "-c", self.config], cores, log, folder)
        self.process.wait_for(": ready\n")

    def stop(self):
        self.process.stop()
