"""Where a log lies: its trajectories shared out among devices, of one process or of many.

Everything here is a sum over trajectories, so it is a matter of placement: the log is laid out
along one axis of a mesh, all else is on every device, and XLA's partitioner adds the sums up.
Nothing else in the library knows of devices, except that rollouts stay within a shard.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from gamps.errors import SettingError
from gamps.trajectories import Trajectories

AXIS = "trajectories"
Tree = TypeVar("Tree")


def wait(name: str) -> None:
    """Until all processes have come here; alone, not at all."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def mesh(devices: int | None = None) -> Mesh:
    """So many devices in a row; by default all, of all processes."""
    available = jax.devices()
    if devices is not None and not 1 <= devices <= len(available):
        problem = f"{devices}, of {len(available)}"
        raise SettingError("devices", problem, "Choose as many as there are")
    return Mesh(np.asarray(available[:devices]), (AXIS,), axis_types=(AxisType.Auto,))


def laid_out(log: Trajectories, over: Mesh) -> Trajectories:
    """A log laid out among the devices, with trajectories of no step added for equal shares.

    Every process gives the whole log, or at least what its own devices hold of it.
    """
    missing = -log.n_trajectories % over.size

    def place(values: Any) -> Any:
        array = np.asarray(values)
        if array.ndim:
            # Repeated, so that densities stay finite; of the mask, nothing.
            more = np.repeat(array[-1:], missing, axis=0)
            array = np.concatenate([array, more if array.dtype != bool else more & False])
        return _laid(array, NamedSharding(over, PartitionSpec(AXIS) if array.ndim else _ALL))

    return jax.tree.map(place, log)


def everywhere(tree: Tree, over: Mesh) -> Tree:
    """All arrays of a tree on every device; what lies on several already is left there."""

    def place(leaf: Any) -> Any:
        if not eqx.is_array(leaf) or mesh_of(leaf) is not None:
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = _laid(np.asarray(jax.random.key_data(leaf)), NamedSharding(over, _ALL))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        return _laid(np.asarray(leaf), NamedSharding(over, _ALL))

    return jax.tree.map(place, tree)


def here(tree: Tree) -> Tree:
    """What is on every device, as arrays of this process alone."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)) if eqx.is_array(x) else x, tree)


def mesh_of(tree: Any) -> Mesh | None:
    """The mesh that the first array of a tree is laid out on; None on a single device."""
    for leaf in jax.tree.leaves(tree):
        where = getattr(leaf, "sharding", None)
        if isinstance(where, NamedSharding) and isinstance(where.mesh, Mesh):
            return where.mesh
        return None
    return None


def replicated(tree: Tree) -> Tree:
    """Within a compiled program on a mesh: results that every device is to have."""
    if AXIS not in jax.sharding.get_abstract_mesh().shape:
        return tree
    return jax.tree.map(
        lambda x: jax.lax.with_sharding_constraint(x, _ALL) if eqx.is_array(x) else x, tree
    )


def shard_by_shard(function: Callable[..., Any], log: Trajectories, before: Any) -> Any:
    """Apply a function to each device's own trajectories, where they lie on several.

    Args:
      function: from trajectories, and the number of real steps before them, to `[n, T]`.
      log: with as many trajectories on every device; otherwise it is taken whole.
      before: real steps before the log's first.
    """
    shards = dict(jax.sharding.get_abstract_mesh().shape).get(AXIS, 1)
    if shards == 1 or log.n_trajectories % shards:
        return function(log, before)
    counts = jnp.sum(log.mask.reshape(shards, -1), axis=1)
    befores = before + jnp.cumsum(counts) - counts
    along = PartitionSpec(AXIS)
    return jax.shard_map(
        lambda log, befores: function(log, befores[0]),
        in_specs=(jax.tree.map(lambda _: along, log), along),
        out_specs=along,
        check_vma=False,
    )(log, befores)


_ALL = PartitionSpec()


def _laid(array: np.ndarray, where: NamedSharding) -> Any:
    return jax.make_array_from_callback(array.shape, where, lambda index: array[index])
