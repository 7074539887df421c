"""Run an exported policy with JAX alone, as a plant's own software would.

Usage: python use_policy.py runs/tanks/policy/mean.stablehlo
"""

import sys
from pathlib import Path

import jax
import numpy as np

policy = jax.export.deserialize(bytearray(Path(sys.argv[1]).read_bytes()))
for levels in ([0.3, 0.3], [0.6, 0.6], [0.8, 0.9]):
    pump = float(np.asarray(policy.call(np.asarray(levels, np.float32)))[0])
    print(f"levels {levels}: pump {min(max(pump, 0.0), 1.0):.2f}")
if any(name.split(".")[0] == "gamps" for name in sys.modules):
    sys.exit("gamps was imported")
