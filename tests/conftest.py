"""Double precision for all tests: truth is compared to 1e-8 and better."""

import os

# Tests compile hundreds of small programs and run each once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax

jax.config.update("jax_enable_x64", True)
