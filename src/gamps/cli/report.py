"""`gamps report`: one page about a run, to read, print or send."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from gamps._utils import atomic_io, console
from gamps.cli.evaluate import say_if_gone
from gamps.cli.strangers import say_imports
from gamps.errors import OutputError
from gamps.evaluation import Assumption
from gamps.report import page
from gamps.report.campaign import campaign_sections, is_campaign
from gamps.report.sections import sections
from gamps.runs.certificate import CERTIFICATE
from gamps.runs.evaluate_run import Against, evaluate_run, last_question

PAGE, PICTURES = "report.html", "report"
UNASKED: dict[str, Any] = {
    "log": "", "assume": "nothing", "against": "newest", "confidence": 0.95, "returns": None,
}  # fmt: skip


def report(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    log: str = "",
    assume: Assumption = "nothing",
    against: Against = "newest",
    confidence: float = 0.95,
    returns: tuple[float, float] | None = None,
    overwrite: bool = False,
) -> None:
    """Write one page about a run: the verdict, how it learned, its evidence, what will change.

    RUN/report.html holds everything, pictures included; it needs no network, so you can send this
    one file. The pictures are in RUN/report/ too. First comes the verdict of gamps evaluate: the
    last one if you give no options, otherwise the answer to what the options ask. Then come
    learning curves, weights over time and over the state space, diagnostics of the model, where the
    new policy differs from the old, the health of the log, settings and versions. For a campaign
    folder, the page shows returns round by round, which policy was put in charge and why, and how
    far off the models' promises were.

    Example: gamps report runs/tanks

    Args:
      run: folder that gamps train or gamps campaign wrote.
      log: as in gamps evaluate.
      assume: as in gamps evaluate.
      against: as in gamps evaluate.
      confidence: as in gamps evaluate.
      returns: as in gamps evaluate.
      overwrite: replace an earlier report.
    """
    target, folder = run / PAGE, run / PICTURES
    for path in (target, folder):
        if path.exists() and not overwrite:
            raise OutputError(f"{path}: exists already. Add --overwrite to replace it")
    if is_campaign(run):
        parts = campaign_sections(run)
        _write(run, f"gamps: {run.resolve().name}", "a campaign in rounds", parts)
        return
    say_imports(run)
    had = (run / CERTIFICATE).exists()
    asked: dict[str, Any] = {
        "log": log, "assume": assume, "against": against, "confidence": confidence,
        "returns": returns,
    }  # fmt: skip
    if asked == UNASKED:
        asked |= last_question(run)
    with console.bar("report", 3) as advance:
        found = evaluate_run(run, **asked, details=True)
        advance("verdict")
        parts = sections(run, found)
        advance("pictures")
        spec, progress = found.run.spec, found.run.progress
        subtitle = (
            f"{spec.log}, recipe {spec.recipe}, {progress.state.iteration} iterations; judged by "
            f"{found.run.held_out.n_trajectories} episodes of {found.by}"
        )
        advance("put together")
    verdict = found.evaluation.verdict
    console.say(f"{verdict.word}: {verdict.why}. {verdict.advice}.")
    say_if_gone(run, had)
    _write(run, f"gamps: {run.resolve().name}", subtitle, parts)


def _write(run: Path, title: str, subtitle: str, parts: list[page.Section]) -> None:
    target, folder = run / PAGE, run / PICTURES
    drawn = [p for s in parts for p in s.parts if isinstance(p, page.Picture)]
    images = {picture.name: page.png(picture.figure) for picture in drawn}
    text = page.page(title, subtitle, parts, images)
    try:
        folder.mkdir(exist_ok=True)
        for name, content in images.items():
            atomic_io.write_file(folder / f"{name}.png", content)
        atomic_io.write_file(target, text.encode())
    except OSError as error:
        raise OutputError(f"{run}: {error.strerror}. Is it read-only?") from error
    size = f"{len(text) / 1e6:.1f} MB"
    console.say(f"written: {target} ({size}), {len(images)} pictures in {folder}")
