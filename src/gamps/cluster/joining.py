"""Several processes in one program: how they find each other, and the devices they work on."""

import contextlib
import dataclasses
import os
from dataclasses import dataclass

import jax
from jax.sharding import Mesh

from gamps.errors import SettingError
from gamps.search.placement import mesh, wait

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
        fix = "Say --coordinator HOST:PORT --processes N --process I in each of them"
        raise SettingError("coordinator", f"{coordinator}: {error}", fix) from error
    wait("joined")


def _said(name: str) -> int | None:
    """A number of the environment, if it is there."""
    text = os.environ.get(name, "")
    if text and not text.isdecimal():
        raise SettingError(name, repr(text), "Set it to a number")
    return int(text) if text else None


@dataclass(frozen=True)
class Devices:
    """Where a training runs.

    Attributes:
      devices: number of devices to split the log over, or all; the result is the same.
      coordinator: host:port of process 0, for one training of several processes, each started
        with this; auto asks GAMPS_COORDINATOR and its like, Slurm or MPI. All share OUT.
      processes: how many processes there are.
      process: the number of this one, from 0.
    """

    devices: str = "1"
    coordinator: str = ""
    processes: int = 0
    process: int = -1


def mesh_of(asked: Devices) -> Mesh | None:
    """The mesh that a user asks for; None for one device of one process.

    Of processors, as many devices as asked for are made of the cores of this machine.
    """
    devices, coordinator, processes, process = dataclasses.astuple(asked)
    if devices != "all" and not (devices.isdecimal() and int(devices) > 0):
        raise SettingError("devices", repr(devices), "Say a number, or all")
    if not coordinator and (processes > 1 or process > 0):
        problem = f"{processes} processes, this one {process}, and no coordinator"
        raise SettingError("coordinator", problem, "Say host:port of process 0, or auto")
    if coordinator and devices not in ("1", "all"):
        problem = f"{devices}, of each of several processes"
        raise SettingError("devices", problem, "Leave it out: all of all processes are used")
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
