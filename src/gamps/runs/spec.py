"""What a user says of a training, in words that JSON and TOML hold, and a run that was so begun."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gamps import datasets
from gamps._utils.atomic_io import recover_folder
from gamps.errors import RunError, SettingError
from gamps.runs import folder

MODEL_FREE = ("pgt", "reinforce")
RECIPES = ("default", "gamps", "gamps_paper", "ml", *MODEL_FREE)
MODELS = ("auto", "linear", "quadratic", "network")
LATER = {"stream": False, "some": 0}  # what runs of old do not say
POLICIES = ("behaviour", "affine", "network")
NAMING = ("task", "policy", "features", "model")  # settings that may name objects of modules


@dataclass(frozen=True)
class Words:
    """A training in words.

    Attributes:
      log: name or folder of a dataset.
      task: `module:object`, a `gamps.Task` or a function that makes one.
      policy: where the search starts.
      model: what is fitted.
      recipe: how it climbs.
      features: `module:function` of one observation and one action, the model's input.
      iterations: policy steps in all.
      learning_rate: of the policy; 0 takes one that served before.
      held_out: share of the log that training never sees.
      seed: of everything random.
      stream: read the log from disk, a shard at a time, in place of holding it in memory.
      some: shards that an iteration takes, drawn anew; 0 takes all.
    """

    log: str
    task: str
    policy: str = "behaviour"
    model: str = "auto"
    recipe: str = "default"
    features: str = ""
    iterations: int = 160
    learning_rate: float = 0.0
    held_out: float = 0.2
    seed: int = 0
    stream: bool = False
    some: int = 0


def check(words: Words) -> None:
    """Refuse what can be refused before anything is read."""
    if words.recipe not in RECIPES:
        mend = f"Choose one of {', '.join(RECIPES)}"
        raise SettingError("recipe", repr(words.recipe), mend)
    check_choice("model", words.model, MODELS)
    check_choice("policy", words.policy, POLICIES)
    if words.recipe in MODEL_FREE and (words.model != "auto" or words.features):
        name = "features" if words.features else "model"
        finding = f"{getattr(words, name)!r}, but {words.recipe} has no model"
        raise SettingError(name, finding, "Leave it out, or take another recipe")
    if words.stream and words.recipe == "default":
        mend = "Take gamps, ml, pgt or another of the paper's, or leave stream out"
        raise SettingError("recipe", "default, which needs the whole log in memory", mend)
    if words.some < 0 or (words.some and not words.stream):
        raise SettingError("some", f"{words.some}", "With stream, say how many shards; 0 for all")
    if not 0 <= words.seed < 2**32:
        raise SettingError("seed", f"{words.seed}", "Choose it from 0 to 4294967295")
    if not 0 < words.held_out < 1:
        raise SettingError("held_out", f"{words.held_out}", "Choose a share between 0 and 1")
    if words.iterations < 1:
        raise SettingError("iterations", f"{words.iterations}", "Run at least one")
    if not (math.isfinite(words.learning_rate) and words.learning_rate >= 0):
        raise SettingError("learning_rate", f"{words.learning_rate}", "Choose a positive number")


def check_choice(name: str, given: str, choices: Sequence[str]) -> None:
    """Refuse what is none of the choices and names no object either."""
    if given not in choices and ":" not in given:
        mend = f"Choose one of {', '.join(choices)}, or module:object"
        raise SettingError(name, repr(given), mend)


def modules_of_others(settings: Mapping[str, Any]) -> dict[str, str]:
    """Which settings of a run name objects of modules that are not gamps's own, by setting.

    Examples:
      >>> modules_of_others({"task": "mytask:task", "policy": "affine", "model": "gamps.own:x"})
      {'task': 'mytask:task'}
    """
    found: dict[str, str] = {}
    for name in NAMING:
        words = settings.get(name)
        if isinstance(words, str) and ":" in words:
            package = words.partition(":")[0].partition(".")[0]
            found |= {} if package == "gamps" else {name: words}
    return found


def hash_of(name: str) -> str:
    """SHA-256 of a log's data, so that a run cannot go on with another."""
    own = recover_folder(Path(name))
    folder = own if own.is_dir() else datasets.folder_of(name)
    digest = hashlib.sha256()
    for path in sorted((folder / "data").rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def words_in(run: Path) -> Words:
    """The words that a run was started with.

    Raises:
      RunError: if it was not started by words.
    """
    settings = folder.header(run)["settings"]
    try:
        settings = LATER | settings
        given = {field.name: settings[field.name] for field in fields(Words)}
        kinds = {field.name: type(field.default) for field in fields(Words)}
        for name, value in given.items():
            kind = kinds[name] if kinds[name] in (int, float, bool) else str
            if type(value) is not kind:
                raise KeyError(f"{name} as a {kind.__name__}")
        expected = settings["log_sha256"]
    except KeyError as error:
        mend = "Was it made by gamps train?"
        raise RunError(f"{run}: its settings lack {error.args[0]}. {mend}") from error
    words = Words(**given)
    if hash_of(words.log) != expected:
        raise RunError(f"{run}: the log {words.log} has changed since. Bring the old one back")
    return words
