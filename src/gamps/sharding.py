"""Where a log lies: its trajectories shared out among devices, of one process or of many.

Everything here is a sum over trajectories, so it is a matter of placement: the log is laid out
along one axis of a mesh, all else is on every device, and XLA's partitioner adds the sums up.
Nothing else in the library knows of devices, except that rollouts stay within a shard.
"""

from __future__ import annotations

import contextlib
import os
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
PATIENCE = "xla_cpu_collective_timeout_seconds"


def join(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    timeout: int = 60,
) -> None:
    """Join other processes in one program; before the first computation.

    What is not said is taken from GAMPS_COORDINATOR, GAMPS_PROCESSES and GAMPS_PROCESS, and if
    these are not set either, JAX finds it where Slurm, Open MPI or a cloud says it.

    Args:
      coordinator: host:port of process 0, which all can reach.
      processes: how many there are.
      process: the number of this one, from 0.
      timeout: seconds without a sign of life, after which a process is taken for dead.

    Raises:
      SettingError: if they do not find each other.
    """
    coordinator = coordinator or os.environ.get("GAMPS_COORDINATOR")
    processes = _said("GAMPS_PROCESSES") if processes is None else processes
    process = _said("GAMPS_PROCESS") if process is None else process
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # One process may compile for minutes longer than another; by default it is given up after 30 s.
    flags = os.environ.get("XLA_FLAGS", "")
    if PATIENCE not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{PATIENCE}=1200"
    try:
        # On the address that was said, not on all that this machine has.
        bound = coordinator if coordinator and process == 0 else None
        jax.distributed.initialize(
            coordinator, processes, process, heartbeat_timeout_seconds=timeout,
            coordinator_bind_address=os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", bound),
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        mend = "Say --coordinator HOST:PORT --processes N --process I in each of them"
        raise SettingError("coordinator", f"{coordinator}: {error}", mend) from error
    wait("joined")


def _said(name: str) -> int | None:
    """A number of the environment, if it is there."""
    text = os.environ.get(name, "")
    if text and not text.isdecimal():
        raise SettingError(name, repr(text), "Set it to a number")
    return int(text) if text else None


def chosen(
    devices: str = "1", coordinator: str = "", processes: int = 0, process: int = -1
) -> Mesh | None:
    """The mesh that a user's words mean; None for one device of one process.

    Args:
      devices: how many, or all. Of processors, so many are made of the cores of this machine.
      coordinator: as in `join`; auto looks for everything where JAX does; empty joins nobody.
      processes: as in `join`; 0 is not said.
      process: as in `join`; -1 is not said.
    """
    if devices != "all" and not (devices.isdecimal() and int(devices) > 0):
        raise SettingError("devices", repr(devices), "Say a number, or all")
    if not coordinator and (processes > 1 or process > 0):
        finding = f"{processes} processes, this one {process}, and no coordinator"
        raise SettingError("coordinator", finding, "Say host:port of process 0, or auto")
    if coordinator and devices not in ("1", "all"):
        finding = f"{devices}, of each of several processes"
        raise SettingError("devices", finding, "Leave it out: all of all processes are used")
    if coordinator:
        found = None if coordinator == "auto" else coordinator
        join(found, processes or None, None if process < 0 else process)
        return mesh()
    if devices == "1":
        return None
    if devices != "all":
        with contextlib.suppress(RuntimeError):  # too late: there are as many as there are
            jax.config.update("jax_num_cpu_devices", int(devices))
    return mesh(None if devices == "all" else int(devices))


def wait(name: str) -> None:
    """Until all processes have come here; alone, not at all."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def mesh(devices: int | None = None) -> Mesh:
    """So many devices in a row; by default all, of all processes."""
    found = jax.devices()
    if devices is not None and not 1 <= devices <= len(found):
        raise SettingError("devices", f"{devices}, of {len(found)}", "Choose as many as there are")
    return Mesh(np.asarray(found[:devices]), (AXIS,), axis_types=(AxisType.Auto,))


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
        return _spread(array, NamedSharding(over, PartitionSpec(AXIS) if array.ndim else _ALL))

    return jax.tree.map(place, log)


def everywhere(tree: Tree, over: Mesh) -> Tree:
    """All arrays of a tree on every device; what lies on several already is left there."""

    def place(leaf: Any) -> Any:
        if not eqx.is_array(leaf) or mesh_of(leaf) is not None:
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = _spread(np.asarray(jax.random.key_data(leaf)), NamedSharding(over, _ALL))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        return _spread(np.asarray(leaf), NamedSharding(over, _ALL))

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

    Returns:
      `[N, T]`.
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


def _spread(array: np.ndarray, where: NamedSharding) -> Any:
    return jax.make_array_from_callback(array.shape, where, lambda index: array[index])
