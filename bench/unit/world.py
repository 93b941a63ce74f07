"""A systemd in namespaces of its own, whose root folder is this machine's, or another one, under an overlay in memory: nothing of it is changed.

In: a folder that is a system. Out: a running systemd; commands run in it, and its files are at `root`.

As a program, this is what runs before systemd does: `world.py enter GROUP BASE LOWER` goes into a control group and into namespaces, and calls
`world.py become BASE LOWER`, which mounts and becomes systemd.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.machine import Failed, Process, wait_until  # noqa: E402

SYSTEMD = "lib/systemd/systemd"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
NAMESPACES = ["--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--propagation", "private"]
# What is started in the namespaces at first.
TARGET = """[Unit]
Requires=systemd-journald.service dbus.socket
After=systemd-journald.service dbus.socket
"""


def cgroup_tree():
    """Where the version 2 of control groups is mounted."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)


class World:
    """The running systemd."""

    def __init__(self, folder, lower):
        tree = cgroup_tree()
        if os.geteuid() or not tree or not (Path(lower) / SYSTEMD).exists():
            raise Failed(f"needs root, a mounted cgroup2 and systemd in {lower}")
        self.group = Path(tempfile.mkdtemp(prefix="handfast-systemd-", dir=tree))
        base = folder / "world"
        base.mkdir()
        self.outer = Process([sys.executable, __file__, "enter", self.group, base, lower], None, folder / "world.log")
        self.manager = None
        try:
            self.manager = wait_until("systemd", self.booted, 20, self.outer)
        except Failed:
            self.stop()
            raise
        self.root = Path(f"/proc/{self.manager}/root")

    def booted(self):
        """Its pid, once it has its root folder and D-Bus."""
        pids = Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
        if pids and os.readlink(f"/proc/{pids[0]}/root").endswith("/root") and Path(f"/proc/{pids[0]}/root/run/dbus/system_bus_socket").exists():
            return int(pids[0])
        return None

    def command(self, *words):
        """The command that runs these words in it."""
        environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        return ["nsenter", "-t", str(self.manager), "-a", "--root", "--wd=/", "env", "-i", *environment, *map(str, words)]

    def run(self, *words, **more):
        """Runs it; the outcome is not looked at. Deadline: 60 s."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, check=False, **more)

    def stop(self):
        """Its end takes with it all that is in its process namespace."""
        if self.manager:
            os.kill(self.manager, signal.SIGKILL)
        self.outer.stop()
        wait_until(f"{self.group} to be empty", self.without_group, 10)

    def without_group(self):
        """Removes the control groups, innermost first; whether they are gone."""
        for path in sorted([self.group, *self.group.rglob("*")], reverse=True):
            try:
                if path.is_dir():
                    path.rmdir()
            except OSError:
                return False
        return True


def enter(group, base, lower):
    Path(group, "cgroup.procs").write_text("0")
    os.execvp("unshare", ["unshare", *NAMESPACES, sys.executable, __file__, "become", base, lower])


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def become(base, lower):
    """Mounts the root folder, and becomes its systemd."""
    mount("-t", "tmpfs", "tmpfs", base)
    upper, work, root = (Path(base) / name for name in ("upper", "work", "root"))
    for path in (upper, work, root):
        path.mkdir()
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", root)
    for kind, path in (("proc", "proc"), ("sysfs", "sys"), ("cgroup2", "sys/fs/cgroup"), ("tmpfs", "run"), ("tmpfs", "tmp")):
        mount("-t", kind, kind, root / path)
    mount("--rbind", "/dev", root / "dev")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    units = root / "etc/systemd/system"
    for path in units.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (units / "lab.target").write_text(TARGET)
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    os.chdir(root)
    os.chroot(".")
    os.execve(f"/{SYSTEMD}", [f"/{SYSTEMD}", "--system", "--unit=lab.target", "--show-status=no"], {"container": "lab", **ENVIRONMENT})


if __name__ == "__main__":
    {"enter": enter, "become": become}[sys.argv[1]](*sys.argv[2:])
