"""One process of a job under Ray: it joins the others and works, or reports what went wrong."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import NamedTuple

import jax

from gamps._utils.worker_pool import cores
from gamps.cluster.cluster import Surroundings, ray_package, settle
from gamps.errors import GampsError, WorkerError

# How the engine reports that another process did not answer; such an error means nothing else.
SILENCE = re.compile("gloo|coordination|deadline.?exceeded|unavailable|connection|heartbeat", re.I)


class Place(NamedTuple):
    """Where a process runs.

    Attributes:
      host: address of its node, as the other nodes see it.
      port: a free port there.
      pid: id of the process.
    """

    host: str
    port: int
    pid: int


class Failure(NamedTuple):
    """An exception as plain data: its class need not exist in the process that receives it.

    Attributes:
      kind: name of its class.
      message: its message.
      ours: whether gamps raised it on purpose, so that trying again would not help.
      peer: whether it only says that another process did not answer.
    """

    kind: str
    message: str
    ours: bool = False
    peer: bool = False

    def like(self, other: Failure | None) -> bool:
        """Whether both are the same problem, ignoring ports, addresses and times."""
        if other is None:
            return False
        mine, theirs = (re.sub(r"[0-9a-fx]*\d[0-9a-fx]*", "", f.message) for f in (self, other))
        return self.kind == other.kind and mine == theirs


def failure(error: Exception) -> Failure:
    """Convert an exception to plain data."""
    message = str(error) or repr(error)
    joining = getattr(error, "field", "") == "coordinator"  # they did not find each other
    peer = joining or bool(
        isinstance(error, jax.errors.JaxRuntimeError) and SILENCE.search(message)
    )
    ours = isinstance(error, GampsError) and not isinstance(error, WorkerError) and not peer
    return Failure(type(error).__name__, message, ours, peer)


class Member:
    """A process of a job.

    Args:
      here: what it needs to know about the process that launched it.
    """

    def __init__(self, here: Surroundings) -> None:
        settle(here)

    def place(self) -> Place:
        """Where this process runs, with a port that is free now."""
        host = str(ray_package().util.get_node_ip_address())
        with socket.socket() as probe:
            probe.bind((host, 0))
            return Place(host, int(probe.getsockname()[1]), os.getpid())

    def work(
        self, run: str, coordinator: str, processes: int, process: int, beside: int = 1
    ) -> Failure | None:
        """Join the others and continue the run to its end.

        Args:
          run: folder of the run.
          coordinator: host:port of process 0.
          processes: number of processes.
          process: number of this process.
          beside: number of processes that share this node's cores; if each used a thread per core
            they would slow each other down. They are not pinned to cores: those may be busy.

        Returns:
          What went wrong, or None at the end of the run.
        """
        try:
            from gamps import runs
            from gamps.cluster.joining import Devices, mesh_of

            # Otherwise process 0 would listen on every address of its node.
            os.environ.setdefault("JAX_COORDINATOR_BIND_ADDRESS", coordinator)
            os.environ.setdefault("PJRT_NPROC", str(max(cores() // beside, 1)))
            alone = processes == 1
            asked = Devices("1", "" if alone else coordinator, processes, process)
            runs.resume(Path(run), over=mesh_of(asked)).train()
        except Exception as error:
            return failure(error)
        return None
