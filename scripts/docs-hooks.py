"""Hooks of ProperDocs: the navigation of docs/SUMMARY.md, and copies of the files outside of docs/ that pages link to.

A link to such a file leads to its copy below `source/`. A file that browsers would not show gets the name of a text file.
"""
import os
import re

from properdocs.structure.files import File

LINK = re.compile(r"\]\(([^)\s]+)\)")
ENTRY = re.compile(r" *(?:- )?\[(.*?)\]\((.*?)\)$")
SHOWN = (".svg", ".png", ".html", ".txt", ".json")


def on_config(config):
    """Reads the navigation: a section for each heading, a page for each entry."""
    config.nav, section = [], None
    with open(os.path.join(config.docs_dir, "SUMMARY.md"), encoding="utf-8") as summary:
        for line in summary.read().splitlines():
            entry = ENTRY.match(line)
            if line.startswith("# ") and line != "# Summary":
                section = []
                config.nav.append({line.removeprefix("# "): section})
            elif entry:
                title, path = entry.groups()
                page = {title: path}
                (config.nav if section is None else section).append(page)
    return config


def outside(link, page, config):
    """The file that a link of a page leads to, from the root of the repository, if it is outside of docs/."""
    path = link.partition("#")[0]
    if not path or re.match("[a-z]+:", link):
        return None
    target = os.path.normpath(os.path.join("docs", os.path.dirname(page), path))
    return None if target.startswith("docs/") else target


def copy_of(target):
    """The place of the copy in the site."""
    return "source/" + (target if target.endswith(SHOWN) else target.removesuffix(".md") + ".txt")


def on_files(files, config):
    """Adds the copies; a link to a file that is not there stays, and is reported."""
    root = os.path.dirname(config.config_file_path)
    targets = set()
    for file in files.documentation_pages():
        links = LINK.findall(file.content_string)
        targets.update(filter(None, (outside(link, file.src_uri, config) for link in links)))
    for target in sorted(targets):
        path = os.path.join(root, target)
        if os.path.isfile(path):
            files.append(File.generated(config, copy_of(target), abs_src_path=path))
    return files


def on_page_markdown(markdown, page, config, files):
    """Leads links to the copies."""

    def rewritten(match):
        target = outside(match[1], page.file.src_uri, config)
        if target is None or files.get_file_from_path(copy_of(target)) is None:
            return match[0]
        return f"]({os.path.relpath(copy_of(target), os.path.dirname(page.file.src_uri) or '.')})"

    blocks = re.split(r"(^```.*?^```)", markdown, flags=re.M | re.S)
    return "".join(block if block.startswith("```") else LINK.sub(rewritten, block) for block in blocks)
