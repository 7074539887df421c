"""What a user writes to get a policy file out of the same log, with gamps and with d3rlpy.

Texts, so that their lines can be counted and that each runs where its library is.
"""

import numpy as np


def observations() -> np.ndarray:
    """Where policies are compared: distances to the hole."""
    return np.linspace(0.1, 20, 200, dtype=np.float32)[:, None]


# gamps: what is known of the game.
TASK = """
import jax.numpy as jnp
import gamps


def reward(distance, stroke, rest):
    friction = jnp.where(distance[0] < 40 / 3, 0.131, 0.19)
    past = -((0.2 - 0.02135) ** 2) / (2 * 0.02135) / (10 / 7 * friction)
    return jnp.where(rest[0] > 0, -1.0, jnp.where(rest[0] < past, -100.0, 0.0))


def ends(distance, stroke, rest):
    return rest[0] <= 0


task = gamps.Task(reward, discount=0.99, terminal=ends)
"""

GAMPS_ALONE = """
import json, sys
sys.modules["gamps"] = None
import numpy as np
from jax import export
from pathlib import Path
mean = export.deserialize(bytearray(Path("run/policy/mean.stablehlo").read_bytes()))
x = np.linspace(0.1, 20, 200, dtype=np.float32)[:, None]
print(json.dumps([float(np.ravel(mean.call(row))[0]) for row in x]))
"""

# d3rlpy: its documented way from a file to its dataset, …
READ = """
import d3rlpy
import h5py
import numpy as np

log = {name: [] for name in ("observations", "actions", "rewards", "terminations", "truncations")}
with h5py.File("log.hdf5") as file:
    for i in range(len(file)):
        for name, values in log.items():
            values.append(file[f"episode_{i}"][name][:])
dataset = d3rlpy.dataset.MDPDataset(
    observations=np.concatenate([values[:-1] for values in log["observations"]]),
    actions=np.concatenate(log["actions"]),
    rewards=np.concatenate(log["rewards"]),
    terminals=np.concatenate(log["terminations"]),
    timeouts=np.concatenate(log["truncations"]),
)
"""

# … to a policy, …
TRAIN = """
d3rlpy.seed(0)
iql = d3rlpy.algos.IQLConfig(
    action_scaler=d3rlpy.preprocessing.MinMaxActionScaler()
).create(device="cpu")
iql.fit(dataset, n_steps=100, n_steps_per_epoch=50)
iql.save_policy("policy.pt")
"""

# … and on after a kill.
RESUME = """
from pathlib import Path

d3rlpy.seed(0)
(checkpoint,) = Path("d3rlpy_logs").glob("*/model_50.d3")
iql = d3rlpy.load_learnable(str(checkpoint), device="cpu")
iql.set_grad_step(50)
iql.fit(dataset, n_steps=50, n_steps_per_epoch=50)
iql.save_policy("policy.pt")
"""

TORCH_ALONE = """
import json, sys
sys.modules["d3rlpy"] = None
import numpy as np, torch
x = np.linspace(0.1, 20, 200, dtype=np.float32)[:, None]
print(json.dumps(torch.jit.load("policy.pt")(torch.tensor(x)).detach().numpy().ravel().tolist()))
"""

MORE = """
import json
from pathlib import Path
import torch

(checkpoint,) = Path("d3rlpy_logs").glob("*/model_100.d3")
iql = d3rlpy.load_learnable(str(checkpoint), device="cpu")
x = np.linspace(0.1, 20, 200, dtype=np.float32)[:, None]
predicted = iql.predict(x).ravel().tolist()
try:
    iql.save_policy("policy.onnx")
    onnx = {"works": True, "said": ""}
except Exception as error:
    onnx = {"works": False, "said": f"{type(error).__name__}: {error}"}
fqe = d3rlpy.ope.FQE(algo=iql, config=d3rlpy.ope.FQEConfig())
value = d3rlpy.metrics.InitialStateValueEstimationEvaluator()
(_, metrics), = fqe.fit(dataset, n_steps=50, n_steps_per_epoch=50, evaluators={"value": value})
cloned = {"logged_beyond_one": float(np.mean(np.abs(np.concatenate(log["actions"])) > 1))}
for name, scaler in (("with", d3rlpy.preprocessing.MinMaxActionScaler()), ("without", None)):
    d3rlpy.seed(0)
    bc = d3rlpy.algos.BCConfig(action_scaler=scaler).create(device="cpu")
    bc.fit(dataset, n_steps=300, n_steps_per_epoch=300)
    cloned[name] = float(bc.predict(x).max())
bases = ("Transformer", "TQLearning", "RandomPolicy", "DiscreteRandomPolicy")
names = [n.removesuffix("Config") for n in dir(d3rlpy.algos) if n.endswith("Config")]
names = sorted(set(names) - set(bases))
print(json.dumps({
    "predicted": predicted,
    "cloned": cloned,
    "onnx": onnx,
    "evaluation": {"value": float(metrics["value"])},
    "algorithms": names,
    "versions": {"d3rlpy": d3rlpy.__version__, "torch": torch.__version__.split("+")[0]},
}))
"""
