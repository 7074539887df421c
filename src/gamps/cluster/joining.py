"""Several processes in one program: how they find each other, and which devices they use."""

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
    """Join other processes in one program; call it before the first computation.

    Missing arguments come from GAMPS_COORDINATOR, GAMPS_PROCESSES and GAMPS_PROCESS; if these are
    not set either, JAX gets them from Slurm, Open MPI or the cloud.

    Args:
      coordinator: host:port of process 0, which all processes can reach.
      processes: number of processes.
      process: number of this process, from 0.
      timeout: seconds without a sign of life after which a process counts as dead.

    Raises:
      SettingError: if the processes do not find each other.
    """
    coordinator = coordinator or os.environ.get("GAMPS_COORDINATOR")
    processes = _said("GAMPS_PROCESSES") if processes is None else processes
    process = _said("GAMPS_PROCESS") if process is None else process
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # One process may compile minutes longer than another; by default the others give up after 30 s.
    flags = os.environ.get("XLA_FLAGS", "")
    if PATIENCE not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{PATIENCE}=1200"
    try:
        # Listen on the given address only, not on all addresses of this machine.
        bound = coordinator if coordinator and process == 0 else None
        jax.distributed.initialize(
            coordinator, processes, process, heartbeat_timeout_seconds=timeout,
            coordinator_bind_address=os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", bound),
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        fix = "Pass --coordinator HOST:PORT --processes N --process I to each process"
        raise SettingError("coordinator", f"{coordinator}: {error}", fix) from error
    wait("joined")


def _said(name: str) -> int | None:
    """A number from an environment variable, or None if it is not set."""
    text = os.environ.get(name, "")
    if text and not text.isdecimal():
        raise SettingError(name, repr(text), "Set it to a number")
    return int(text) if text else None


@dataclass(frozen=True)
class Devices:
    """Where a training runs.

    Attributes:
      devices: number of devices to split the log over, or all; the result is the same.
      coordinator: host:port of process 0, to train in several processes that share OUT; pass it to
        each. auto uses GAMPS_COORDINATOR and related variables, Slurm or MPI.
      processes: number of processes.
      process: number of this process, from 0.
    """

    devices: str = "1"
    coordinator: str = ""
    processes: int = 0
    process: int = -1


def mesh_of(asked: Devices) -> Mesh | None:
    """The mesh that the user asked for; None for one device of one process.

    On a CPU, the requested number of devices is made from the cores of this machine.
    """
    devices, coordinator, processes, process = dataclasses.astuple(asked)
    if devices != "all" and not (devices.isdecimal() and int(devices) > 0):
        raise SettingError("devices", repr(devices), "Give a positive number, or all")
    if not coordinator and (processes > 1 or process > 0):
        problem = f"missing, but --processes is {processes} and --process is {process}"
        raise SettingError("coordinator", problem, "Give host:port of process 0, or auto")
    if coordinator and devices not in ("1", "all"):
        problem = f"{devices}, with several processes"
        raise SettingError("devices", problem, "Leave it out: every process uses all its devices")
    if coordinator:
        found = None if coordinator == "auto" else coordinator
        join(found, processes or None, None if process < 0 else process)
        return mesh()
    if devices == "1":
        return None
    if devices != "all":
        with contextlib.suppress(RuntimeError):  # too late to change their number
            jax.config.update("jax_num_cpu_devices", int(devices))
    return mesh(None if devices == "all" else int(devices))
