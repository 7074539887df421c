"""A policy as plain data, so that a log can say who made it and reading it runs no code."""

from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gamps._utils.networks import MLP
from gamps.errors import DescriptionError
from gamps.policies.boltzmann import Boltzmann
from gamps.policies.features import Affine, OneHot, RadialBasis
from gamps.policies.gaussian import LinearGaussianPolicy, MLPGaussianPolicy, SoftClipped
from gamps.policies.types import Policy

# Only these are ever built from a file: a name in the file selects one and runs nothing else.
KNOWN: dict[str, type] = {
    "Bent": SoftClipped,
    "Boltzmann": Boltzmann,
    "LinearGaussian": LinearGaussianPolicy,
    "MLPGaussian": MLPGaussianPolicy,
    "OneHot": OneHot,
    "Affine": Affine,
    "RadialBasis": RadialBasis,
    "MLP": MLP,
    "Dense": eqx.nn.Linear,
}
DTYPES = ("float32", "float64", "int32", "int64", "bool")
NAMES = {cls: name for name, cls in KNOWN.items()}


def describe(policy: Policy) -> dict[str, Any]:
    """Describe the policy's class and fields as data that JSON can hold; `rebuild` is its inverse.

    Raises:
      DescriptionError: for your own class or function, which a reader could not rebuild.

    Examples:
      >>> describe(LinearGaussianPolicy(jnp.zeros((2, 1)), log_std=jnp.zeros(1)))["class"]
      'LinearGaussian'
    """
    described: dict[str, Any] = _describe(policy, "policy")
    return described


def describe_known(policy: Policy | None) -> dict[str, Any] | None:
    """Like `describe`, but None without a policy, or for one of the user's own classes."""
    try:
        return None if policy is None else describe(policy)
    except DescriptionError:
        return None  # readers do without it: the log still has its densities


def _describe(value: Any, place: str) -> Any:
    if type(value) in NAMES:
        described = {
            f.name: _describe(getattr(value, f.name), f"{place}.{f.name}") for f in fields(value)
        }
        return {"class": NAMES[type(value)], "fields": described}
    if isinstance(value, (jax.Array, np.ndarray)):
        # A float32 is exactly a double, and JSON's digits restore a double exactly.
        return {"dtype": str(value.dtype), "array": np.asarray(value).tolist()}
    if isinstance(value, tuple):
        return {"tuple": [_describe(v, f"{place}[{i}]") for i, v in enumerate(value)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise DescriptionError(
        place,
        f"{type(value).__name__} cannot be stored as plain data",
        f"Build policies from {', '.join(sorted(KNOWN))}, or keep the policy's code with the log",
    )


def rebuild(description: Any) -> Policy:
    """Rebuild the policy from what `describe` returned.

    Raises:
      DescriptionError: names the field that cannot belong to a policy.
    """
    policy = _rebuild(description, "policy")
    if not isinstance(policy, Policy):
        raise DescriptionError(
            "policy", f"describes {policy!r:.60}", "Write it with describe(policy)"
        )
    return policy


def _rebuild(content: Any, place: str) -> Any:
    fix = "Write it with gamps.policies.describe"
    if content is None or isinstance(content, (bool, int, float, str)):
        return content
    if not isinstance(content, dict):
        raise DescriptionError(place, f"a {type(content).__name__}", fix)
    if "array" in content:
        if content.get("dtype") not in DTYPES:
            raise DescriptionError(place, f"dtype {content.get('dtype')!r:.40}", fix)
        try:
            array = np.asarray(content["array"], dtype=content["dtype"])
        except (TypeError, ValueError, OverflowError) as error:
            raise DescriptionError(place, f"not an array: {error}", fix) from error
        if not np.isfinite(array).all():
            raise DescriptionError(place, "has numbers that are not finite", fix)
        kind = jnp.result_type(float) if array.dtype.kind == "f" else array.dtype
        return jnp.asarray(array, dtype=kind)
    if isinstance(content.get("tuple"), list):
        return tuple(_rebuild(v, f"{place}[{i}]") for i, v in enumerate(content["tuple"]))
    cls = KNOWN.get(str(content.get("class")))
    if cls is None:
        raise DescriptionError(place, f"class {content.get('class')!r}", f"Known: {sorted(KNOWN)}")
    values = content.get("fields", {})
    if not isinstance(values, dict) or set(values) != {f.name for f in fields(cls)}:
        raise DescriptionError(place, f"fields {sorted(values)} of {content['class']}", fix)
    built: Any = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(built, name, _rebuild(value, f"{place}.{name}"))
    return built
