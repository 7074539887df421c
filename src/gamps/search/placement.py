"""Split a log's trajectories over devices, of one process or of many.

The search needs only sums over trajectories, so placement is enough: the log is laid out along one
axis of a mesh, everything else is on every device, and XLA's partitioner adds up the sums.
Nothing else in the library knows about devices, except that rollouts stay within a shard.
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
    """Wait until all processes get here; return at once if there is only one."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def mesh(devices: int | None = None) -> Mesh:
    """A mesh of the first `devices` devices; by default of all devices of all processes."""
    available = jax.devices()
    if devices is not None and not 1 <= devices <= len(available):
        problem = f"{devices}, but there are {len(available)}"
        raise SettingError("devices", problem, "Choose at least one, and no more than there are")
    return Mesh(np.asarray(available[:devices]), (AXIS,), axis_types=(AxisType.Auto,))


def laid_out(log: Trajectories, over: Mesh) -> Trajectories:
    """Split a log over the devices; trajectories without a step are added to make shares equal.

    Every process passes the whole log, or at least the part that its own devices hold.
    """
    missing = -log.n_trajectories % over.size

    def place(values: Any) -> Any:
        array = np.asarray(values)
        if array.ndim:
            # Repeat the last row, so that densities stay finite; but set its mask to False.
            more = np.repeat(array[-1:], missing, axis=0)
            array = np.concatenate([array, more if array.dtype != bool else more & False])
        return _laid(array, NamedSharding(over, PartitionSpec(AXIS) if array.ndim else _ALL))

    return jax.tree.map(place, log)


def everywhere(tree: Tree, over: Mesh) -> Tree:
    """Put all arrays of a tree on every device; those already on several devices stay there."""

    def place(leaf: Any) -> Any:
        if not eqx.is_array(leaf) or mesh_of(leaf) is not None:
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = _laid(np.asarray(jax.random.key_data(leaf)), NamedSharding(over, _ALL))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        return _laid(np.asarray(leaf), NamedSharding(over, _ALL))

    return jax.tree.map(place, tree)


def here(tree: Tree) -> Tree:
    """Turn arrays that are on every device into arrays of this process alone."""
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
    """Within a compiled program on a mesh, give results to every device."""
    if AXIS not in jax.sharding.get_abstract_mesh().shape:
        return tree
    return jax.tree.map(
        lambda x: jax.lax.with_sharding_constraint(x, _ALL) if eqx.is_array(x) else x, tree
    )


def shard_by_shard(function: Callable[..., Any], log: Trajectories, before: Any) -> Any:
    """Apply a function to each device's own trajectories, if they lie on several devices.

    Args:
      function: maps trajectories, and the number of real steps before them, to `[n, T]`.
      log: the log; if devices do not hold equally many trajectories, it is processed as a whole.
      before: number of real steps before the log's first.
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
