"""The specification of a training, shared by commands, TOML files, sweeps and run folders."""

import hashlib
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from gamps import datasets
from gamps._utils.atomic_io import recover_folder
from gamps.errors import DatasetError, RunError, SettingError
from gamps.runs import folder

MODEL_FREE = ("pgt", "reinforce")
RECIPES = ("default", "gamps", "gamps_paper", "ml", *MODEL_FREE)
MODELS = ("auto", "linear", "quadratic", "network")
LATER = {"stream": False, "some": 0}  # settings that early runs do not have
POLICIES = ("behaviour", "affine", "network")
NAMING = ("task", "policy", "features", "model")  # settings that may name objects in modules


@dataclass(frozen=True)
class TrainSpec:
    """The settings of a training, in values that JSON and TOML can hold.

    Attributes:
      log: name or folder of a dataset (from gamps import or gamps collect); several names joined
        by + are the logs of several controllers, the newest last.
      task: module:object, a gamps.Task (reward, discount, terminal) or a function that makes one;
        without it, reward and termination are estimated from the log, with the log's discount.
      policy: behaviour (the log's own, or affine fitted to it), affine, network, module:object;
        for choices, a softmax. If actuators clip, gamps.policies.SoftClipped is safer.
      model: auto (a network; for the paper's recipes quadratic), linear, quadratic, network, or
        module:object, a gamps.learner.ModelClass.
      recipe: default, or one of the paper's: gamps, gamps_paper, ml, pgt, reinforce.
      features: module:function of (observation, action) that gives the model's input. Put in it
        what you know about the plant. By default both, the action clipped to the actuators'
        limits if the log has them.
      iterations: number of policy steps.
      learning_rate: learning rate of the policy; 0 uses the recipe's default.
      held_out: share of the episodes that training never sees; the verdict rests on them.
      seed: random seed.
      stream: for a log larger than memory: cut it into shards next to it, once, and read them from
        disk, each while the one before is in use. The default recipe learns from half a million
        steps of randomly drawn episodes, and is judged by all held-out episodes.
      some: with stream and one of the paper's recipes, number of shards per iteration, drawn anew
        each time, or 0 for all. An iteration then costs the same however long the log is.
    """

    log: Annotated[str, Positional, arg(metavar="LOG")]
    task: str = ""
    policy: str = "behaviour"
    model: str = "auto"
    recipe: str = "default"
    features: str = ""
    iterations: int = 80
    learning_rate: float = 0.0
    held_out: float = 0.5
    seed: int = 0
    stream: bool = False
    some: int = 0


KINDS = {field.name: type(field.default) for field in fields(TrainSpec)} | {"log": str}


def check(spec: TrainSpec) -> None:
    """Refuse settings that can be refused before anything is read."""
    if spec.recipe not in RECIPES:
        fix = f"Choose one of {', '.join(RECIPES)}"
        raise SettingError("recipe", repr(spec.recipe), fix)
    check_choice("model", spec.model, MODELS)
    check_choice("policy", spec.policy, POLICIES)
    if spec.recipe in MODEL_FREE and (spec.model != "auto" or spec.features):
        name = "features" if spec.features else "model"
        problem = f"{getattr(spec, name)!r}, but {spec.recipe} has no model"
        raise SettingError(name, problem, "Leave it out, or choose another recipe")
    if spec.stream and len(datasets.names_in(spec.log)) > 1:
        raise SettingError("stream", "given several logs", "Import them as one, or leave it out")
    if spec.some < 0 or (spec.some and (not spec.stream or spec.recipe == "default")):
        fix = "Give a number of shards with stream and one of the paper's recipes; 0 for all"
        raise SettingError("some", f"{spec.some}", fix)
    if not 0 <= spec.seed < 2**32:
        raise SettingError("seed", f"{spec.seed}", "Choose a number from 0 to 4294967295")
    if not 0 < spec.held_out < 1:
        raise SettingError("held_out", f"{spec.held_out}", "Choose a share between 0 and 1")
    if spec.iterations < 1:
        raise SettingError("iterations", f"{spec.iterations}", "Run at least one")
    if not (math.isfinite(spec.learning_rate) and spec.learning_rate >= 0):
        raise SettingError("learning_rate", f"{spec.learning_rate}", "Choose a positive number")


def check_choice(name: str, given: str, choices: Sequence[str]) -> None:
    """Refuse a value that is neither one of the choices nor module:object."""
    if given not in choices and ":" not in given:
        fix = f"Choose one of {', '.join(choices)}, or module:object"
        raise SettingError(name, repr(given), fix)


def modules_of_others(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a run that name objects in modules other than gamps's own.

    Examples:
      >>> modules_of_others({"task": "mytask:task", "policy": "affine", "model": "gamps.own:x"})
      {'task': 'mytask:task'}
    """
    found: dict[str, str] = {}
    for name in NAMING:
        target = settings.get(name)
        if isinstance(target, str) and ":" in target:
            package = target.partition(":")[0].partition(".")[0]
            found |= {} if package == "gamps" else {name: target}
    return found


NO_LOG = hashlib.sha256().hexdigest()


def log_sha256(name: str) -> str:
    """SHA-256 of a log's data, so that a run cannot continue with another; `NO_LOG` if none."""
    if len(parts := datasets.names_in(name)) > 1:
        digests = [log_sha256(part) for part in parts]
        joined = hashlib.sha256("".join(digests).encode()).hexdigest()
        return NO_LOG if NO_LOG in digests else joined
    own = recover_folder(Path(name))
    try:
        folder = own if own.is_dir() else datasets.folder_of(name)
    except DatasetError:
        return NO_LOG
    digest = hashlib.sha256()
    for path in sorted((folder / "data").rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def spec_in(run: Path) -> TrainSpec:
    """Return the specification that a run was started with.

    Raises:
      RunError: if the folder holds none, or its log has changed since.
    """
    settings = LATER | folder.header(run)["settings"]
    fix = "Was it made by gamps train?"
    for name, kind in KINDS.items():
        if type(settings.get(name)) is not kind:
            raise RunError(f"{run}: its settings have no {kind.__name__} {name}. {fix}")
    if "log_sha256" not in settings:
        raise RunError(f"{run}: its settings have no log_sha256. {fix}")
    spec = TrainSpec(**{name: settings[name] for name in KINDS})
    if log_sha256(spec.log) != settings["log_sha256"]:
        raise RunError(f"{run}: the log {spec.log} has changed since. Restore the old one")
    return spec


def read_toml(path: Path, field: str) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
      SettingError: naming the field that the file was given for.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(field, f"{path}: {error}", "Give a TOML file") from error


def typed(name: str, value: Any) -> Any:
    """Return a setting from a TOML file in the type that the specification wants.

    Raises:
      SettingError: if it has another type.
    """
    kind = KINDS[name]
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        problem = f"{value!r} is a {type(value).__name__}"
        raise SettingError(name, problem, f"Give a {kind.__name__}")
    return value
