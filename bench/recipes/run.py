"""The program of scripts/recipes: which recipes there are, and the rows of those that were chosen.

In: the words of the command line. Out: rows, the exit code.
"""

import argparse
import os
import shutil
import subprocess

from harness import rows
from harness.machine import Failed, Process
from web import tools

from . import access, applications, assets, basics, files, mirrors, programs, streams, wordpress
from .trial import Trial

# name: (function, page, heading, programs)
RECIPES = {**basics.RECIPES, **applications.RECIPES, **wordpress.RECIPES, **files.RECIPES, **streams.RECIPES, **access.RECIPES,
           **mirrors.RECIPES, **assets.RECIPES}


def main():
    parser = argparse.ArgumentParser(prog="scripts/recipes", description="Tries the recipes of docs/http again.")
    parser.add_argument("--install", action="store_true", help="install the missing programs first (apt, pip, npm, go)")
    parser.add_argument("--list", action="store_true", help="list the recipes, and what they need")
    parser.add_argument("names", nargs="*", metavar="RECIPE", help=f"one of {', '.join(RECIPES)}; all by default")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in RECIPES]:
        parser.error(f"unknown recipe {', '.join(unknown)}: expected one of {', '.join(RECIPES)}")
    chosen = {name: RECIPES[name] for name in options.names or RECIPES}
    if options.list:
        for name, (_, page, heading, needed) in chosen.items():
            print(f"{name}: docs/{page}, {heading}; needs {', '.join(needed)}")
        return 0
    if options.install:
        programs.install(sorted({program for *_, needed in chosen.values() for program in needed}))
    # Clients must not use a proxy of this machine.
    os.environ.update({"no_proxy": "localhost,127.0.0.1", "NO_PROXY": "localhost,127.0.0.1"})
    return rows.main("recipes", lambda found, folder: try_all(found, folder, chosen), ("openssl", "curl"))


def try_all(found, folder, chosen):
    os.environ["HANDFAST"] = tools.handfast()
    for name, (function, page, heading, needed) in chosen.items():
        if absent := programs.missing(needed):
            found.row("FAILED", name, f"not installed: {programs.describe(absent)}; hint: `scripts/recipes --install {name}`")
            continue
        versions = ", ".join(f"{program} {programs.PROGRAMS[program].find_version()}" for program in needed)
        print(f"with     {name}: {versions}", flush=True)
        before = list(Process.started)
        try:
            function(Trial(found, folder / name, page, heading))
        except (Failed, OSError, subprocess.SubprocessError, ValueError, KeyError) as problem:
            found.row("FAILED", name, f"{type(problem).__name__}: {problem}")
        finally:
            for process in [process for process in Process.started if process not in before]:
                process.stop()
            shutil.rmtree(folder / name, ignore_errors=True)
