"""Prints the licences of the crates that the service's programs hold, each text once.

    ci/notices.py PACKAGE

It fails if a crate names no licence.
"""

import json
import pathlib
import re
import subprocess
import sys

# A crate that has no such file has no text but the licence's own, which others have.
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def cargo(*arguments):
    return subprocess.run(("cargo", *arguments), check=True, capture_output=True, text=True).stdout


def held(package):
    """The foreign crates in the programs of the package, by name and version."""
    edges = ("--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
    tree = cargo("tree", "--locked", "--package", package, *edges)
    named = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1"))
    found = [crate for crate in metadata["packages"]
             if crate["source"] and (crate["name"], "v" + crate["version"]) in named]
    return sorted(found, key=lambda crate: (crate["name"], crate["version"]))


def texts(crate):
    """The texts of licences and notices that come with a crate."""
    folder = pathlib.Path(crate["manifest_path"]).parent
    for path in sorted(folder.iterdir()):
        if path.is_file() and LICENCE_FILE.match(path.name):
            yield path.read_text(errors="replace").strip()


def main(package):
    crates = held(package)
    holders = {}
    print("The programs hold these crates, each by its licence:\n")
    for crate in crates:
        if not (crate["license"] or crate["license_file"]):
            sys.exit(f"{crate['name']} {crate['version']} names no licence")
        authors = ", ".join(crate["authors"])
        name = f"{crate['name']} {crate['version']}"
        by = f" ({authors})" if authors else ""
        print(f"  {name}: {crate['license'] or crate['license_file']}{by}")
        for text in texts(crate):
            holders.setdefault(" ".join(text.split()), (text, []))[1].append(name)
    for text, names in holders.values():
        print(f"\n{'-' * 78}\n{', '.join(names)}\n\n{text}")


main(sys.argv[1])
