"""An exported policy in use: nothing here trains, and nothing of the training is imported."""

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
UNJUDGED = "the mean action is another policy than the one with noise, and nobody has judged it"


class UnjudgedWarning(UserWarning):
    """What is handed out has no certificate."""


class DeployedPolicy:
    """A policy read back; NumPy in, NumPy out.

    Attributes:
      header: its description: shapes, the range of observations it was trained on, notes.
    """

    def __init__(self, header: dict[str, Any], act: Any, mean: Any = None) -> None:
        self.header, self._act, self._mean = header, act, mean

    @property
    def certificate(self) -> dict[str, Any] | None:
        """What was shown of this policy; None if nobody has judged it."""
        found: dict[str, Any] | None = self.header["notes"].get("certificate")
        return found

    def mean_action(self, observation: Any) -> np.ndarray:
        """The most likely action: another policy than the one that was judged."""
        if self._mean is None:
            fix = "Export it with mean_action=True, or gamps export --mean-action"
            raise CheckpointError(MEAN, "was not exported", fix)
        warnings.warn(UNJUDGED, UnjudgedWarning, stacklevel=2)
        return np.asarray(self._mean.call(self._observed(observation)))

    def sample(self, observation: Any, generator: np.random.Generator) -> np.ndarray:
        """An action drawn at random, as the policy was judged."""
        noise = generator.standard_normal(self.header["noise"])
        (_, expected) = self._act.in_avals
        return np.asarray(self._act.call(self._observed(observation), noise.astype(expected.dtype)))

    def _observed(self, observation: Any) -> np.ndarray:
        expected = self.header["observation"]
        array = np.asarray(observation, dtype=expected["dtype"])
        if list(array.shape) != expected["shape"]:
            problem, fix = f"shape {array.shape}", f"Expected {expected['shape']}, one observation"
            raise CheckpointError("observation", problem, fix)
        return array


def load_policy(path: str | Path) -> DeployedPolicy:
    """Read a policy that `gamps export` wrote; every byte is checked, and no code of it is run.

    Raises:
      CheckpointError: naming the file and what is wrong with it.
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
            # A program may call into the process that runs it only by this; no policy needs it.
            if "custom_call" in programs[name].mlir_module():
                raise ValueError("it calls out of the program")
        inputs = programs[ACT].in_avals
        if list(inputs[0].shape) != header["observation"]["shape"]:
            raise ValueError("it is of another shape than its description")
    except Exception as error:  # flatbuffers and MLIR raise whatever the damage happens to cause
        raise CheckpointError(f"{folder}", f"no policy: {error}", fix) from error
    return DeployedPolicy(header, programs[ACT], programs.get(MEAN))
