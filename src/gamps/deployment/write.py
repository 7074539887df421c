"""Write a policy that runs without gamps: StableHLO programs and a plain description.

The folder holds `act.stablehlo` (observation and standard normal numbers to action), serialised by
`jax.export` for every platform, and `policy.json`, which describes inputs and outputs. Any process
with JAX can run it without this package:
`jax.export.deserialize(file.read_bytes()).call(observation, noise)`. A policy is judged with its
noise; its most likely action, `mean.stablehlo`, is another policy, and written only on demand.
"""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gamps._utils import atomic_io
from gamps._version import __version__
from gamps.deployment.load import ACT, HEADER, MEAN, TITLE
from gamps.errors import MissingExtraError, OutputError
from gamps.policies import Policy
from gamps.policies.description import describe_known
from gamps.trajectories import Trajectories

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def export(
    policy: Policy,
    like: Trajectories,
    out: str | Path,
    *,
    notes: dict[str, Any] | None = None,
    mean_action: bool = False,
    onnx: bool = False,
) -> Path:
    """Write a policy that `gamps.load_policy`, or any process with JAX, can run.

    Args:
      policy: a policy of any class.
      like: a log that gives the shapes of observations and actions, and the range of observations.
      out: the folder to write; it must not exist.
      notes: further data to keep in the description.
      mean_action: also write the most likely action, which no verdict covers.
      onnx: also write `OUT.onnx`, a function of observation and noise; needs the extra `onnx`.

    Raises:
      OutputError: if something exists there already, or it cannot be written.
    """
    out = Path(out)
    refuse_taken(out, onnx=onnx)
    observation = jax.ShapeDtypeStruct(like.states.shape[2:], like.states.dtype)
    noise = jax.ShapeDtypeStruct((policy.noise_size,), jnp.result_type(float))

    def mean(observation: Any) -> Any:
        return policy.mode(observation)

    def act(observation: Any, noise: Any) -> Any:
        return policy.act(observation, noise)

    programs = {ACT: jax.export.export(jax.jit(act), platforms=PLATFORMS)(observation, noise)}
    if mean_action:
        programs[MEAN] = jax.export.export(jax.jit(mean), platforms=PLATFORMS)(observation)
    contents = {HEADER: (json.dumps(_header(policy, like, notes), indent=1) + "\n").encode()}
    contents |= {name: bytes(program.serialize()) for name, program in programs.items()}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        graph = _onnx(act, observation, noise) if onnx else b""
        atomic_io.write_folder(out, TITLE, contents)
        if onnx:
            atomic_io.write_file(_beside(out), graph)
    except OSError as error:
        raise OutputError(f"{out}: {error.strerror}. Choose another --out") from error
    return out


def refuse_taken(out: Path, *, onnx: bool = False) -> None:
    """Refuse an export target that exists already; writes nothing."""
    for path in (out, *((_beside(out),) if onnx else ())):
        if path.exists():
            raise OutputError(f"{path}: exists already. Choose another --out")


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.onnx")


def _header(policy: Policy, like: Trajectories, notes: dict[str, Any] | None) -> dict[str, Any]:
    mask = np.asarray(like.mask)
    observations = np.asarray(like.states)[mask].reshape(int(mask.sum()), -1)
    log_std = getattr(policy, "log_std", None)
    return {
        "gamps": __version__,
        "observation": {
            "shape": list(like.states.shape[2:]),
            "dtype": str(like.states.dtype),
            "least": observations.min(axis=0).tolist(),
            "most": observations.max(axis=0).tolist(),
        },
        "action": {"shape": list(like.actions.shape[2:]), "dtype": str(like.actions.dtype)},
        "noise": policy.noise_size,
        "log_std": None if log_std is None else np.asarray(log_std).tolist(),
        "policy": describe_known(policy),
        "notes": notes or {},
    }


def _onnx(act: Any, observation: Any, noise: Any) -> bytes:
    try:
        from jax2onnx import to_onnx
    except ImportError as error:
        raise MissingExtraError(
            f'{error.name} is not installed. Do pip install "gamps[onnx]"'
        ) from error
    model = to_onnx(act, inputs=[observation, noise], model_name="policy")
    return bytes(model.SerializeToString())
