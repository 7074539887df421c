"""`gamps export`: a policy out of its run folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gamps._utils import console
from gamps.cli.strangers import say_imports
from gamps.deployment import write
from gamps.runs.open_run import open_run


def export(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    out: Path | None = None,
    which: Literal["best", "last"] = "best",
    onnx: bool = False,
) -> None:
    """Write a policy that runs without what trained it: StableHLO, and ONNX if asked for.

    gamps.load_policy(OUT) gives predict(observation) and sample(observation, generator), NumPy in
    and out. A process with JAX alone runs OUT/mean.stablehlo by jax.export.deserialize.

    Example: gamps export runs/tanks

    Args:
      run: the folder that gamps train wrote.
      out: the new folder; RUN/policy by default.
      which: best, the one to deploy, or last.
      onnx: write OUT.onnx too, the mean action; needs pip install "gamps[onnx]".
    """
    target = run / "policy" if out is None else out
    write.refuse_taken(target, onnx=onnx)
    say_imports(run)
    opened = open_run(run)
    for error in opened.refused:
        console.say(f"passed over: {error}", "yellow")
    if opened.done < opened.total and not opened.progress.run.stopped:
        missing = f"{opened.done} of {opened.total} iterations"
        console.say(f"not finished: {missing}. gamps resume {run}", "yellow")
    policy = opened.progress.best if which == "best" else opened.progress.state.policy
    data = opened.data
    notes = {"run": asdict(opened.spec), "iterations": opened.done, "which": which}
    notes |= {"densities": data.densities}
    write.export(policy, data.trajectories, target, notes=notes, onnx=onnx)
    console.say_estimated(data.densities)
    console.say(f"written: {target}")
