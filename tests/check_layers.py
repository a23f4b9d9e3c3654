#!/usr/bin/env python3
"""Checks that rooms include only rooms on lower floors, and that CMake links no other; and that a room links what it includes.

    tests/check_layers.py [--src DIR]     exit 1 and a line for each fault

A room is a folder under src/. FLOORS is the one list of them; docs/MAP.md tells the same story in words.
"""
import argparse
import re
import sys
from pathlib import Path

FLOORS = {
    "base": 0,
    "tensor": 1, "text": 1,
    "kernel": 2, "comm": 2,
    "ops": 3, "load": 3, "probe": 3,
    "cache": 4,
    "model": 5,
    "engine": 6,
    "spec": 7,
    "schedule": 8,
    "serve": 9,
    "measure": 10,
    "tool": 11,
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def room_of(path):
    return path.split("/", 1)[0]


def include_faults(src, links):
    """`links`: for each room with a strobe_room() in CMake, the rooms it names there."""
    faults, graph = [], {}
    for file in sorted(p for p in src.rglob("*") if p.suffix in {".h", ".cc", ".cu", ".cuh", ".inc"}):
        name = file.relative_to(src).as_posix()
        room = room_of(name)
        if room not in FLOORS:
            faults.append(f"{name}: room '{room}' has no floor in tests/check_layers.py")
            continue
        for target in INCLUDE.findall(file.read_text(encoding="utf-8")):
            if not (src / target).exists():
                beside = file.parent / target
                if not beside.exists():
                    if target.split("/")[0] in FLOORS:
                        faults.append(f"{name}: includes {target}, which does not exist")
                    continue
                target = beside.resolve().relative_to(src.resolve()).as_posix()
            graph.setdefault(name, set()).add(target)
            other = room_of(target)
            if other != room and FLOORS.get(other, 99) >= FLOORS[room]:
                faults.append(f"{name} (floor {FLOORS[room]}) includes {target} (floor {FLOORS.get(other, '?')}): only lower floors")
            elif other != room and room in links and other not in links[room]:
                faults.append(f"{name} includes {target}, but {room}/CMakeLists.txt does not name {other} in ROOMS")
    return faults + cycles(graph)


def cycles(graph):
    """Files that include each other in a ring."""
    faults, done, path = [], set(), []

    def visit(node):
        if node in path:
            faults.append("circular includes: " + " -> ".join(path[path.index(node):] + [node]))
            return
        if node in done:
            return
        path.append(node)
        for target in sorted(graph.get(node, ())):
            visit(target)
        path.pop()
        done.add(node)

    for node in sorted(graph):
        visit(node)
    return faults


def room_links(src):
    links = {}
    for file in sorted(src.glob("*/CMakeLists.txt")):
        for room, body in re.findall(r"strobe_room\(\s*(\w+)(.*?)\)", file.read_text(encoding="utf-8"), re.S):
            match = re.search(r"\bROOMS\b(.*?)(?:\bLIBRARIES\b|\bSOURCES\b|$)", body, re.S)
            links[room] = match.group(1).split() if match else []
    return links


def link_faults(links):
    return [f"{room}/CMakeLists.txt: room {room} links {other}: only lower floors"
            for room, others in links.items() for other in others if FLOORS.get(other, 99) >= FLOORS.get(room, -1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=Path(__file__).resolve().parent.parent / "src")
    src = parser.parse_args().src
    links = room_links(src)
    faults = include_faults(src, links) + link_faults(links)
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{sum(1 for _ in src.rglob('*.h'))} headers in {len(FLOORS)} rooms: includes and links go down only")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
