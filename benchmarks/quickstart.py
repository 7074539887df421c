"""From an empty environment to a trained policy and its report, timed: the commands of a page.

    python -m benchmarks.quickstart                       # as docs/quickstart.md says
    python -m benchmarks.quickstart --wheel dist/*.whl    # the same with a built wheel

All bash blocks of docs/quickstart.md run in one shell, in a temporary clone of what is committed
(or, with a wheel, in an empty folder), with the cache of compiled programs in it, so that nothing
comes from an earlier run. Fails if it takes longer than five minutes, or than `--limit`. `--out`
writes the seconds of every command.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
INSTALL = 'pip install ".[minari]"'


def commands() -> list[str]:
    """Every command of the page's bash blocks."""
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL)
    joined = (re.sub(r"\s*\\\n\s*", " ", block) for block in blocks)
    return [line for block in joined for line in block.splitlines() if line.strip()]


def timed(lines: list[str], folder: Path) -> dict[str, float]:
    """Run the lines in one shell; seconds of each."""
    mark = "quickstart-mark"
    script = "\n".join(f"{line}\necho {mark} {i}" for i, line in enumerate(lines))
    own = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    own["MINARI_DATASETS_PATH"] = str(folder / "minari")
    kept = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "VIRTUAL_ENV")}
    shell = subprocess.Popen(  # noqa: S603 (the page's own commands)
        ["bash", "-euo", "pipefail", "-c", script],  # noqa: S607
        cwd=folder, env=kept | own, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    seconds, began = {}, time.perf_counter()
    for line in shell.stdout or ():
        if line.startswith(mark):
            now = time.perf_counter()
            seconds[lines[int(line.split()[1])]] = now - began
            began = now
        else:
            print(line, end="")
    if shell.wait():
        sys.exit(f"failed after: {list(seconds)[-1:]}")
    return seconds


def main() -> None:
    """Run it once and say how long it took."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--wheel", type=Path, help="install this in place of the checkout")
    words.add_argument("--folder", type=Path, help="where to run it; it stays. By default it goes")
    words.add_argument("--out", type=Path, help="write the seconds there, as JSON")
    words.add_argument("--limit", type=float, default=300.0, help="seconds that it may take")
    words.add_argument("--python", default=sys.executable, help="makes the environment")
    given = words.parse_args()
    lines = commands()
    if INSTALL not in lines:
        sys.exit(f"docs/quickstart.md does not say {INSTALL}")
    if given.wheel:
        wheel = given.wheel.resolve()
        change = {INSTALL: f'pip install "gamps[minari] @ file://{wheel}"'}
        lines = [change.get(line, line) for line in lines]
    lines[0] = lines[0].replace("python", given.python, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder.resolve() if given.folder else Path(name) / "gamps"
        if given.wheel:
            folder.mkdir(parents=True)
        else:
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)  # noqa: S603, S607
        seconds = timed(lines, folder)
        left = [p for p in ("best.json", "report.html") if not (folder / "runs/tanks" / p).exists()]
        if left:
            sys.exit(f"not made: {left}")
    total = sum(seconds.values())
    for line, value in seconds.items():
        print(f"{value:7.1f} s  {line}")
    print(f"{total:7.1f} s  in all")
    if given.out:
        content = {"seconds": list(seconds.values()), "commands": commands(), "total": total}
        given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if total > given.limit:
        sys.exit(f"longer than {given.limit:.0f} s")


if __name__ == "__main__":
    main()
