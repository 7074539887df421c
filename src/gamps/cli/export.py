"""`gamps export`: a policy out of its run folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gamps import datasets
from gamps._utils import console
from gamps.cli.strangers import say_imports
from gamps.deployment import write
from gamps.runs import build
from gamps.runs.loop import taken_up
from gamps.runs.resolve import check_named
from gamps.runs.spec import words_in


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
    words = words_in(run)
    check_named(words)
    data = datasets.load(words.log)
    training = build(words, data)
    progress, done, refused = taken_up(training, run)
    for error in refused:
        console.say(f"passed over: {error}", "yellow")
    if done < training.total and "stopped" not in progress.plain:
        missing = f"{done} of {training.total} iterations"
        console.say(f"not finished: {missing}. gamps resume {run}", "yellow")
    policy = progress.best if which == "best" else progress.state.policy
    notes = {"run": asdict(words), "iterations": done, "which": which, "densities": data.densities}
    write.export(policy, data.trajectories, target, notes=notes, onnx=onnx)
    console.say_estimated(data.densities)
    console.say(f"written: {target}")
