"""What devices hand to one another: read from the compiled program, and from the network."""

from __future__ import annotations

import math
import re
from pathlib import Path

SIZES = {"pred": 1, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}
COLLECTIVE = re.compile(
    r"= (.*?) (?:all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\("
)
SHAPE = re.compile(r"(pred|[suf](?:32|64))\[([\d,]*)\]")


def collectives(program: str) -> dict[str, int]:
    """What a compiled program hands to other devices: number, bytes, and how many in loops."""
    count = size = loops = 0
    bodies = set(re.findall(r"body=%?([\w.\-]+)", program))
    inside = ""
    for line in program.splitlines():
        if line and not line[0].isspace() and "{" in line:
            inside = line.split()[0].lstrip("%")
        if found := COLLECTIVE.search(line):
            shapes = SHAPE.findall(found.group(1))
            count += 1
            loops += inside in bodies
            size += sum(
                SIZES[k] * math.prod(map(int, filter(None, d.split(",")))) for k, d in shapes
            )
    return {"count": count, "bytes": size, "in_loops": loops}


def sent() -> int:
    """Bytes that went over this machine's own network interface so far."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    (own,) = [line for line in lines if line.strip().startswith("lo:")]
    return int(own.split(":")[1].split()[8])
