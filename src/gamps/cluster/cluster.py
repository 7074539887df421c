"""A Ray to work in: one of our own on this machine, or a cluster that is there already."""

import contextlib
import importlib.util
import os
import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from gamps._utils.compile_cache import keep_compiled
from gamps._utils.worker_pool import cores
from gamps.errors import GampsError, MissingExtraError, WorkerError

TRIES = 20  # processes lost in a row, without an iteration between, after which it is given up
STORE = 80 * 2**20  # bytes of shared memory: nothing large goes from process to process
LOOPBACK, LOCAL = "127.0.0.1", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0: this machine only
TOKEN = secrets.token_hex(32)  # of a Ray of our own
SENT = ("JAX_", "XLA_", "MINARI_", "XDG_CACHE_HOME")  # what of the environment a cluster is told


def require_ray() -> None:
    """Refuse to begin what needs Ray without it; it is not imported yet.

    Raises:
      MissingExtraError: if it is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError('ray is not installed. Do pip install "gamps[ray]"')


def ray_package() -> Any:
    """Ray, imported now.

    Raises:
      MissingExtraError: if it is not installed.
    """
    require_ray()
    import ray
    import ray.util.scheduling_strategies

    return ray


@contextlib.contextmanager
def connected(address: str, cpus: int) -> Iterator[Any]:
    """Ray, ready for work, until the end of the context.

    Args:
      address: of a cluster, host:port, or auto; if empty, a Ray of our own is started for as many
        processes, for this user on this machine only, and ended with the context.
      cpus: how many processes a Ray of our own runs at once.

    Raises:
      MissingExtraError: if Ray is not installed.
      WorkerError: if it cannot be started or reached.
    """
    if not address:
        # Ray reads this once, as it is imported: no word to its makers, no port but on 127.0.0.1,
        # and none of this machine's other users may run anything through it.
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", LOCAL: "0"}
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
        # Ray would allow one thread a process, and a sum of more threads has other last bits; and
        # it would let everything else go first.
        os.environ.setdefault("OMP_NUM_THREADS", str(cores()))
        os.environ.setdefault("RAY_worker_niceness", "0")
        own: dict[str, Any] = {
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": STORE,
            "_node_ip_address": LOOPBACK,
        }
    else:
        told = {k: v for k, v in os.environ.items() if k.startswith(SENT)}
        own = {"address": address, "runtime_env": {"env_vars": told}}
    ray = ray_package()
    try:
        with warnings.catch_warnings():
            # Python warns of threads at every fork; Ray's processes begin a program of their own.
            warnings.simplefilter("ignore")
            ray.init(log_to_driver=False, logging_level="ERROR", **own)
    except Exception as error:  # Ray fails in many ways
        where = address or "this machine"
        raise WorkerError(f"Ray on {where}: {error}. Is its address right?") from error
    try:
        if not address and ray.util.get_node_ip_address() != LOOPBACK:
            raise WorkerError(
                "Ray was imported before, and would listen to others than this machine. Import it "
                f"after gamps.cluster, or with {LOCAL}=0 in the environment"
            )
        yield ray
    finally:
        ray.shutdown()


class Surroundings(NamedTuple):
    """What a process needs to know of the one that launched it.

    Attributes:
      folder: the current one, where modules of the user's own are looked for.
      x64: whether numbers are of double precision.
    """

    folder: str
    x64: bool


def surroundings() -> Surroundings:
    """Of this process."""
    return Surroundings(str(Path.cwd()), bool(jax.config.jax_enable_x64))  # type: ignore[attr-defined]


def settle(here: Surroundings) -> None:
    """In a launched process, before its first computation."""
    if Path(here.folder).is_dir():
        os.chdir(here.folder)
    jax.config.update("jax_enable_x64", here.x64)
    with contextlib.suppress(GampsError):  # then programs are compiled anew, which is slower only
        keep_compiled()
