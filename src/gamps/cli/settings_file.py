"""Settings of `gamps train` from a TOML file, as arguments that the command line may overrule."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from gamps.errors import SettingError
from gamps.runs import Words


def with_settings(arguments: Sequence[str]) -> list[str]:
    """The arguments of `train`, with those of a TOML file before them."""
    given = [part for word in arguments for part in _parts(word)]
    if given[:1] != ["train"] or "--config" not in given:
        return given
    place = given.index("--config")
    if place + 1 >= len(given):
        raise SettingError("config", "no file", "Say --config settings.toml")
    path = Path(given[place + 1])
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError("config", f"{path}: {error}", "Give a TOML file") from error
    rest = given[1:place] + given[place + 2 :]
    flags = [word.split("=")[0].removeprefix("--") for word in rest if word[:2] == "--"]
    said = {flag.removeprefix("no-").replace("-", "_") for flag in flags}
    known = {field.name for field in fields(Words)} | {"out", "tensorboard"}
    for name, value in content.items():
        if name not in known or isinstance(value, (dict, list)):
            finding = f"{path}: {name} is no setting"
            raise SettingError("config", finding, f"Known are {', '.join(sorted(known))}")
        if name in said or (name == "log" and rest and not rest[0].startswith("-")):
            continue
        flag = f"--{name.replace('_', '-')}"
        if name == "log":
            rest = [str(value), *rest]
        elif isinstance(value, bool):
            rest += [flag if value else f"--no-{flag[2:]}"]
        else:
            rest += [flag, str(value)]
    return ["train", *rest]


def _parts(word: str) -> list[str]:
    """`--config=file` as two words."""
    return word.split("=", 1) if word.startswith("--config=") else [word]
