"""Load and run an exported policy. Nothing here trains or imports training code."""

import json
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gamps._utils import atomic_io
from gamps.errors import CheckpointError

HEADER, ACT, MEAN = "policy.json", "act.stablehlo", "mean.stablehlo"
TITLE = "gamps policy"
UNJUDGED = "the mean action is a different policy from the one with noise; nobody has judged it"


class UnjudgedWarning(UserWarning):
    """The returned action has no certificate."""


class DeployedPolicy:
    """An exported policy; NumPy in, NumPy out.

    Attributes:
      header: description of the policy: shapes, range of observations it was trained on, notes.
    """

    def __init__(self, header: dict[str, Any], act: Any, mean: Any = None) -> None:
        self.header, self._act, self._mean = header, act, mean

    @property
    def certificate(self) -> dict[str, Any] | None:
        """What was shown about this policy; None if nobody has judged it."""
        found: dict[str, Any] | None = self.header["notes"].get("certificate")
        return found

    def mean_action(self, observation: Any) -> np.ndarray:
        """The most likely action. Acting this way is not the policy that was judged."""
        if self._mean is None:
            fix = "Export it with mean_action=True or gamps export --mean-action"
            raise CheckpointError(MEAN, "was not exported", fix)
        warnings.warn(UNJUDGED, UnjudgedWarning, stacklevel=2)
        return np.asarray(self._mean.call(self._observed(observation)))

    def sample(self, observation: Any, generator: np.random.Generator) -> np.ndarray:
        """Draw an action at random, as when the policy was judged."""
        noise = generator.standard_normal(self.header["noise"])
        (_, expected) = self._act.in_avals
        return np.asarray(self._act.call(self._observed(observation), noise.astype(expected.dtype)))

    def _observed(self, observation: Any) -> np.ndarray:
        expected = self.header["observation"]
        array = np.asarray(observation, dtype=expected["dtype"])
        if list(array.shape) != expected["shape"]:
            problem, fix = f"shape {array.shape}", f"Expected {expected['shape']}, one observation"
            raise CheckpointError("observation", problem, fix)
        given = np.asarray(observation, float)
        if not np.isfinite(given).all() or (array.dtype.kind == "i" and (array != given).any()):
            fix = "Expected a state's number" if array.dtype.kind == "i" else "Repair the sensor"
            raise CheckpointError("observation", f"{given.tolist()}", fix)
        if array.dtype.kind == "i" and array.min() < 0:
            raise CheckpointError("observation", f"{given.tolist()}", "States count from 0")
        return array


def load_policy(path: str | Path) -> DeployedPolicy:
    """Read a policy that `gamps export` wrote; checks every byte and runs none of its code.

    Raises:
      CheckpointError: names the file and what is wrong with it.
    """
    folder = Path(path)
    names = (HEADER, ACT, *((MEAN,) if (folder / MEAN).exists() else ()))
    contents = atomic_io.read_folder(folder, TITLE, names)
    fix = "Export the policy again"
    try:
        header = json.loads(contents[HEADER])
        programs = {}
        for name in names[1:]:
            programs[name] = jax.export.deserialize(bytearray(contents[name]))
            # Only a custom call lets a program call into its process; no policy needs that.
            if "custom_call" in programs[name].mlir_module():
                raise ValueError("it calls code outside the program")
        inputs = programs[ACT].in_avals
        if list(inputs[0].shape) != header["observation"]["shape"]:
            raise ValueError("its shape differs from its description")
    except Exception as error:  # flatbuffers and MLIR raise whatever the damage happens to cause
        raise CheckpointError(f"{folder}", f"not a policy: {error}", fix) from error
    return DeployedPolicy(header, programs[ACT], programs.get(MEAN))
