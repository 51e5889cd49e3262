#!/usr/bin/env python3
"""Counts functions that only forward: their body is one expression which calls a method, or a function, of their own name. Code of tests does
not count.

    benches/data-path/forwarders.py [--list] [DIRECTORY …]       by default crates/*/src
"""

import argparse
import pathlib
import re

FUNCTION = re.compile(r"\bfn (\w+)(?:<[^({;]*>)?\s*\(([^{};]*)\)(?:\s*->[^{};]*)?(?:\s*where[^{};]*)?\s*\{([^{};]*);?\s*\}")


def forwarders(path):
    """Lines and names of the forwarders of a file."""
    text = path.read_text()
    text = re.sub(r"//[^\n]*", "", text)
    text = text.split("#[cfg(test)]\nmod tests {")[0]
    for found in FUNCTION.finditer(text):
        name, _, body = found.groups()
        if re.search(rf"[.:]{name}\(", body):
            yield text.count("\n", 0, found.start()) + 1, name


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("directories", nargs="*", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    for directory in arguments.directories or sorted(root.glob("crates/*/src")):
        files = [path for path in sorted(directory.rglob("*.rs")) if "tests" not in path.stem]
        found = [(path, line, name) for path in files for line, name in forwarders(path)]
        print(f"{len(found):4} {directory}")
        if arguments.list:
            for path, line, name in found:
                print(f"     {path}:{line} {name}")


main()
