"""Double precision for all tests: truth is compared to 1e-8 and better."""

import gc
import os
from collections.abc import Iterator

# Tests compile hundreds of small programs and run each once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# Nor do tests read or fill the user's folder of compiled programs.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax
import pytest

jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="module", autouse=True)
def _forget_programs() -> Iterator[None]:
    """A file's compiled programs go with it: kept to the end they would fill the memory."""
    yield
    jax.clear_caches()
    gc.collect()
