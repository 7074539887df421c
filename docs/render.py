"""Write the pages that have a source: X.md.in becomes X.md beside it, README.md.in the README.

Usage: python docs/render.py           writes them
       python docs/render.py --check   names those that differ from their source, and exits 1

No number of a result is typed by hand: a source says `{{ expression }}`, and what an expression may
call is in docs/rendering. Edit the source, not the page.
"""

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from rendering import (  # noqa: E402
    beside,
    certificates,
    claimed,
    engine,
    evaluation,
    gallery,
    logs,
    peers,
    reproduction,
    rounds,
    scale,
    speed,
    swimmer,
    tables,
)

SUBJECTS = (
    tables,
    reproduction,
    swimmer,
    peers,
    beside,
    certificates,
    evaluation,
    speed,
    scale,
    logs,
    rounds,
    gallery,
    claimed,
)


def names() -> dict[str, Any]:
    """What expressions may use: the public functions of every subject, and its constants."""
    found: dict[str, Any] = {}
    for subject in SUBJECTS:
        for name, value in vars(subject).items():
            own = getattr(value, "__module__", "") == subject.__name__ and not name.startswith("_")
            if not own and not (name.isupper() and isinstance(value, int | float)):
                continue
            if name in found:
                raise engine.RenderError(f"{name} is in {subject.__name__} and in another subject")
            found[name] = value
    return found


def sources() -> dict[Path, Path]:
    """Sources and their pages."""
    found = {}
    for source in sorted(HERE.rglob("*.md.in")):
        page = source.with_suffix("")
        found[source] = HERE.parent / "README.md" if page == HERE / "README.md" else page
    return found


def pages() -> dict[Path, str]:
    """Every page, rendered."""
    known = names()
    return {
        page: engine.render(
            source.read_text(encoding="utf-8"), str(source.relative_to(HERE.parent)), known
        )
        for source, page in sources().items()
    }


def main() -> int:
    """Write or compare."""
    check, differs = "--check" in sys.argv[1:], []
    try:
        for page, text in pages().items():
            if not page.exists() or page.read_text(encoding="utf-8") != text:
                differs.append(str(page.relative_to(HERE.parent)))
                if not check:
                    page.write_text(text, encoding="utf-8")
    except engine.RenderError as error:
        sys.exit(str(error))
    for name in differs:
        print(f"differs from its source: {name}" if check else f"written: {name}")
    return int(check and bool(differs))


if __name__ == "__main__":
    sys.exit(main())
