"""Double precision for all tests: truth is compared to 1e-8 and better."""

import os

# Tests compile hundreds of small programs and run each once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# Nor do tests read or fill the user's folder of compiled programs.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax

jax.config.update("jax_enable_x64", True)
