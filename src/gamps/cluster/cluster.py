"""Connect to Ray: start one on this machine, or use an existing cluster."""

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

TRIES = 20  # give up after this many lost processes in a row without an iteration in between
STORE = 80 * 2**20  # bytes of shared memory: processes exchange nothing large
LOOPBACK, LOCAL = "127.0.0.1", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0: this machine only
TOKEN = secrets.token_hex(32)  # for a Ray that we start ourselves
SENT = ("JAX_", "XLA_", "MINARI_", "XDG_CACHE_HOME")  # environment variables sent to a cluster


def require_ray() -> None:
    """Check that Ray is installed, without importing it.

    Raises:
      MissingExtraError: if it is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError('ray is not installed. Do pip install "gamps[ray]"')


def ray_package() -> Any:
    """Import Ray now.

    Raises:
      MissingExtraError: if it is not installed.
    """
    require_ray()
    import ray
    import ray.util.scheduling_strategies

    return ray


@contextlib.contextmanager
def connected(address: str, cpus: int) -> Iterator[Any]:
    """A context in which Ray is ready for work.

    Args:
      address: host:port of a cluster, or auto; if empty, a new Ray is started for this user on this
        machine only, and ended with the context.
      cpus: number of processes that a new Ray runs at once.

    Raises:
      MissingExtraError: if Ray is not installed.
      WorkerError: if it cannot be started or reached.
    """
    if not address:
        # Ray reads this once, on import: it sends no usage reports, opens ports on 127.0.0.1 only,
        # and other users of this machine cannot run anything through it.
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", LOCAL: "0"}
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
        # Ray would allow one thread per process, and the number of threads changes the last bits of
        # a sum; it would also run at low priority.
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
            # Python warns about threads at every fork; Ray's processes start a new program.
            warnings.simplefilter("ignore")
            ray.init(log_to_driver=False, logging_level="ERROR", **own)
    except Exception as error:  # Ray fails in many ways
        where = address or "this machine"
        raise WorkerError(f"Ray on {where}: {error}. Is the address right?") from error
    try:
        if not address and ray.util.get_node_ip_address() != LOOPBACK:
            raise WorkerError(
                "Ray was already imported, and would accept connections from other machines. "
                f"Import it after gamps.cluster, or set {LOCAL}=0 in the environment"
            )
        yield ray
    finally:
        ray.shutdown()


class Surroundings(NamedTuple):
    """What a process needs to know about the one that launched it.

    Attributes:
      folder: the current folder, where the user's own modules are looked for.
      x64: whether numbers have double precision.
    """

    folder: str
    x64: bool


def surroundings() -> Surroundings:
    """The surroundings of this process."""
    return Surroundings(str(Path.cwd()), bool(jax.config.jax_enable_x64))  # type: ignore[attr-defined]


def settle(here: Surroundings) -> None:
    """Set up a launched process; call it before the first computation."""
    if Path(here.folder).is_dir():
        os.chdir(here.folder)
    jax.config.update("jax_enable_x64", here.x64)
    with contextlib.suppress(GampsError):  # programs are then compiled again, which is only slower
        keep_compiled()
