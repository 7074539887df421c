"""Double precision for all tests: truth is compared to 1e-8 and better."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

# Tests compile hundreds of small programs and run each once.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1",
)

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

jax.config.update("jax_enable_x64", True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The standing tier leaves out what is marked `full` or `distributed`."""
    if os.environ.get("GAMPS_FULL"):
        return
    marked = ("full", "distributed")
    full = [item for item in items if any(map(item.get_closest_marker, marked))]
    config.hook.pytest_deselected(items=full)
    items[:] = [item for item in items if item not in set(full)]


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of compiled programs for a run: its workers, and the processes that they start.

    Most tests begin with the same ones, and so do the tests that tests run. It is not the user's
    folder, unless `JAX_COMPILATION_CACHE_DIR` says so.
    """
    here = tmp_path_factory.getbasetemp()
    of_run = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
    folder = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(of_run / "compiled"))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # whoever compiled before has found none
    return Path(folder)


@pytest.fixture
def short_climbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Climbs on the log of few updates, for tests of what happens around them."""
    monkeypatch.setattr("gamps.search.logged_climb.TIMES", 1)
    monkeypatch.setattr("gamps.search.values.advantages.UPDATES", 100)


@pytest.fixture(scope="module", autouse=True)
def _forget_programs() -> Iterator[None]:
    """A file's compiled programs go with it: kept to the end they would fill the memory."""
    yield
    jax.clear_caches()
    gc.collect()
