"""`gamps export`: write a run's policy to a folder that runs without the run."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gamps._utils import console
from gamps.cli.strangers import say_imports
from gamps.deployment import write
from gamps.deployment.load import UNJUDGED
from gamps.runs.certificate import certified
from gamps.runs.open_run import open_run


def export(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    out: Path | None = None,
    which: Literal["certified", "learned", "last"] = "certified",
    mean_action: bool = False,
    onnx: bool = False,
) -> None:
    """Write a policy that runs without the code that trained it: StableHLO, and ONNX on request.

    By default this is the policy that gamps evaluate certified, with the noise it was judged with.
    gamps.load_policy(OUT) gives sample(observation, generator), NumPy in and out. With JAX alone,
    run OUT/act.stablehlo through jax.export.deserialize.

    Example: gamps export runs/tanks

    Args:
      run: run folder that gamps train wrote.
      out: the new folder; RUN/policy by default.
      which: certified; or unjudged: learned (the end of the ladder) or last (the last iteration).
      mean_action: also write OUT/mean.stablehlo, the most likely action, which nobody has judged.
      onnx: also write OUT.onnx, of observation and noise; needs pip install "gamps[onnx]".
    """
    target = run / "policy" if out is None else out
    write.refuse_taken(target, onnx=onnx)
    say_imports(run)
    opened = open_run(run)
    for error in opened.refused:
        console.say(f"skipped a checkpoint: {error}", "yellow")
    if opened.done < opened.total and not opened.progress.run.stopped:
        missing = f"{opened.done} of {opened.total} iterations"
        console.say(f"not finished: {missing}. Continue with gamps resume {run}", "yellow")
    data, certificate = opened.data, None
    if which == "certified":
        policy, certificate = certified(run, opened.ends)
    else:
        policy = opened.ends.learned if which == "learned" else opened.progress.state.policy
        console.say(f"nobody has judged the {which} policy: it may be worse than the log's", "red")
    if mean_action:
        console.say(UNJUDGED, "red")
    notes = {"run": asdict(opened.spec), "iterations": opened.done, "which": which}
    notes |= {"densities": data.densities, "certificate": certificate}
    write.export(policy, data.trajectories, target, notes=notes, mean_action=mean_action, onnx=onnx)
    console.say_estimated(data.densities)
    console.say(f"written: {target}")
