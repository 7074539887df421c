"""`gamps play`: run an exported policy in a Gymnasium environment."""

import contextlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
import tyro

from gamps._utils import console, figures
from gamps._utils.atomic_io import replace_file
from gamps.deployment.load import UNJUDGED, UnjudgedWarning, load_policy
from gamps.errors import GampsError, RunError, SettingError
from gamps.runs.certificate import CERTIFICATE, WITHDRAWN
from gamps.runs.folder import HEADER, refuse_unwritable

LONGEST = 10_000  # steps after which an episode is cut off
STRIP = 20  # frames for the strip: every step up to this one, then one in this many
MOVING, SKIPPED = 200, 3  # steps that the GIF covers, and one in how many it shows


def play(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    env: str,
    episodes: int = 10,
    seed: int = 0,
    mean_action: bool = False,
    moving: bool = False,
    out: Path | None = None,
) -> None:
    """Run an exported policy in a Gymnasium environment: print returns, draw a picture.

    The picture, play.png, shows the first episode: a strip of rendered frames if the environment
    can render, otherwise observations, actions and rewards over time.

    Example: gamps play runs/tanks --env gamps/TwoTanks-v0

    Args:
      run: run folder whose policy was exported, or the exported folder itself.
      env: id of a Gymnasium environment.
      episodes: number of episodes, of 10,000 steps at most.
      seed: seed of the environment.
      mean_action: use the most likely action, which nobody has judged; by default the policy acts
        with its noise, as it was judged.
      moving: also write play.gif, the start of the first episode, if the environment can render.
      out: folder for the pictures; RUN by default.
    """
    exported = run / "policy" if (run / "policy").is_dir() else run
    if not (exported / "policy.json").exists():
        raise RunError(f"{run}: no exported policy. Run gamps export {run} first")
    if episodes < 1:
        raise SettingError("episodes", f"{episodes}", "Play at least one")
    if seed < 0:
        raise SettingError("seed", f"{seed}", "Choose 0 or more")
    beside = run if exported != run else run.parent  # an exported folder is sealed
    target = beside if out is None else out
    refuse_unwritable(target)
    policy = load_policy(exported)
    console.say_estimated(str(policy.header["notes"].get("densities")))
    if policy.certificate is None:
        console.say("nobody has judged this policy", "red")
    if (beside / WITHDRAWN).exists():
        console.say("this policy was deployed and did harm: its certificate is withdrawn", "red")
    elif (beside / HEADER).exists() and policy.certificate is not None:
        now, own = beside / CERTIFICATE, policy.certificate.get("policy_sha256", "")
        if not now.exists() or own not in now.read_text("utf-8"):
            console.say("the run no longer certifies this policy: export it again", "red")
    if mean_action:
        console.say(UNJUDGED, "red")
    try:
        made = gymnasium.make(env, render_mode="rgb_array")
    except Exception:  # environments that cannot render fail in different ways
        try:
            made = gymnasium.make(env)
        except Exception as error:
            raise SettingError("env", f"{env}: {error}", "Give a Gymnasium id") from error
    generator = np.random.default_rng(seed)

    def act(observation: Any) -> np.ndarray:
        if not mean_action:
            return policy.sample(observation, generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnjudgedWarning)  # already said above
            return policy.mean_action(observation)

    returns, lengths, first = [], [], None
    with console.bar(f"play {env}", episodes) as advance:
        for i in range(episodes):
            try:
                shown = _episode(made, act, seed + i, frames=i == 0)
            except GampsError as error:
                raise SettingError("env", f"{env}: {error}", "Play it in its own env") from error
            except Exception as error:  # an environment may fail in any way
                problem = f"{env}: {type(error).__name__}: {error}"
                raise SettingError("env", problem, "Does it accept such actions?") from error
            first = shown if first is None else first
            returns.append(float(np.sum(shown["rewards"])))
            lengths.append(len(shown["rewards"]))
            advance(f"return {returns[-1]:.2f}")
    made.close()
    table = console.rich_table(f"{env}", ["", "mean", "std", "least", "most"])
    for name, values in (("return", np.asarray(returns)), ("steps", np.asarray(lengths))):
        numbers = (values.mean(), values.std(), values.min(), values.max())
        table.add_row(name, *(f"{number:.2f}" for number in numbers))
    console.say(table)
    target.mkdir(parents=True, exist_ok=True)
    written = _picture(first or {}, target)
    console.say(f"written: {written}")
    if moving and first is not None:
        if not first["frames"]:
            fix = "Leave --moving out, or set MUJOCO_GL=egl for MuJoCo without a display"
            raise SettingError("moving", f"{env} cannot render here", fix)
        console.say(f"written: {_moving(first['frames'], target)}")


def _episode(
    env: gymnasium.Env[Any, Any], act: Callable[[Any], np.ndarray], seed: int, *, frames: bool
) -> dict[str, list[Any]]:
    observation, _ = env.reset(seed=seed)
    kept: dict[str, list[Any]] = {"observations": [], "actions": [], "rewards": [], "frames": []}
    over = False
    while not over and len(kept["rewards"]) < LONGEST:
        action = act(observation)
        kept["observations"].append(np.asarray(observation))
        kept["actions"].append(action)
        step = len(kept["rewards"])
        shown = step < STRIP or step % STRIP == 0 or (step < MOVING and step % SKIPPED == 0)
        if frames and shown and env.render_mode == "rgb_array":
            with contextlib.suppress(Exception):  # some fail without a display
                kept["frames"].append((step, env.render()))
        observation, reward, terminated, truncated, _ = env.step(action)
        kept["rewards"].append(float(reward))
        over = terminated or truncated
    return kept


def _picture(shown: dict[str, list[Any]], out: Path) -> str:
    if shown["frames"]:
        ends = shown["frames"][-1][0]
        at = [step for step, _ in shown["frames"]]
        near = [int(np.argmin(np.abs(np.array(at) - ends * k / 5))) for k in range(6)]
        chosen = [shown["frames"][i][1] for i in near]
        figure, axes = figures.panels(1, 6, width=2.2, height=2.2)
        for axis, frame in zip(axes[0], chosen, strict=True):
            axis.imshow(frame)
            axis.set_axis_off()
    else:
        figure, axes = figures.panels(1, 3)
        for axis, name in zip(axes[0], ("observations", "actions", "rewards"), strict=True):
            values = np.asarray(shown[name]).reshape(len(shown[name]), -1)
            for j, column in enumerate(values.T):
                axis.plot(column, label=f"{name[:-1]} {j}")
            if values.shape[1] > 1:
                axis.legend(fontsize=7, frameon=False)
            axis.set_title(name, fontsize=9)
            axis.set_xlabel("step")
    with replace_file(out / "play.png") as path:
        figure.savefig(path, dpi=120, bbox_inches="tight")
    return f"{out / 'play.png'}"


def _moving(frames: list[Any], out: Path) -> str:
    """Write a GIF of some frames at half size: a small file that any page can show."""
    from matplotlib.animation import PillowWriter

    chosen = [frame for step, frame in frames if step < MOVING and step % SKIPPED == 0]
    height, width = (side / 200 for side in chosen[0].shape[:2])
    figure, axes = figures.panels(1, 1, width=width, height=height)
    figure.set_layout_engine("none")
    axis = axes[0, 0]
    axis.set_position((0, 0, 1, 1))
    axis.set_axis_off()
    image = axis.imshow(chosen[0])
    writer = PillowWriter(fps=12)
    with replace_file(out / "play.gif") as path, writer.saving(figure, path, dpi=100):
        for frame in chosen:
            image.set_data(frame)
            writer.grab_frame()
    return f"{out / 'play.gif'}"
