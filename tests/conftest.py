"""Double precision for all tests: truth is compared to 1e-8 and better."""

import jax

jax.config.update("jax_enable_x64", True)
