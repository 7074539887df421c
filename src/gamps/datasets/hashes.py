"""The SHA-256 of each file of a dataset, stored with the files to detect later changes."""

import hashlib
import json
from pathlib import Path

from gamps.errors import DatasetError

HASHES = "sha256.json"


def write_hashes(folder: Path) -> None:
    """Write the SHA-256 of every data file into the dataset's folder."""
    (folder / HASHES).write_text(json.dumps(hashes_of(folder), indent=1) + "\n", encoding="utf-8")


def check_hashes(folder: Path, digests: dict[str, str] | None = None) -> None:
    """Compare the files with their hashes, if there are any; logs from elsewhere have none."""
    if not (folder / HASHES).exists():
        return
    fix = "Get the dataset again; if you changed it on purpose, delete sha256.json"
    try:
        expected = json.loads((folder / HASHES).read_text(encoding="utf-8"))
        expected = {str(name): str(digest) for name, digest in expected.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise DatasetError(HASHES, "is not a table of hashes", fix) from error
    digests = hashes_of(folder) if digests is None else digests
    for name in sorted(expected | digests):
        if expected.get(name) != digests.get(name):
            raise DatasetError(name, "is not the file that was written: its hash differs", fix)


def files_of(folder: Path) -> list[Path]:
    """The data files of a dataset, sorted by name."""
    return sorted(path for path in (folder / "data").rglob("*") if path.is_file())


def hashes_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of every data file, by its path."""
    digests = {}
    for path in files_of(folder):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        digests[path.relative_to(folder).as_posix()] = digest
    return digests
