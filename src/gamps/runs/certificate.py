"""The ladder of a run, its judgements, and the certificate of the policy that passed.

ladder.json         the rungs, written by the training before anyone looks at a held-out episode;
                    ladder-markov.json for --assume markov, chosen by the same episodes
judgements.jsonl    one line per judgement, never rewritten
certificate.json    the last judgement, if it says deploy: what `gamps export` hands out; renamed
                    to certificate-withdrawn.json if the deployed policy did harm; the run is then
                    certified no more
"""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from gamps import evaluation
from gamps._utils import atomic_io
from gamps._utils.summaries import plain
from gamps._version import __version__
from gamps.errors import CertificateError, OutputError
from gamps.evaluation import Assumption, Rung
from gamps.policies import Policy, between
from gamps.runs import folder
from gamps.runs.spec import NO_LOG, log_sha256
from gamps.trajectories import Trajectories

LADDER: dict[Assumption, str] = {"nothing": "ladder.json", "markov": "ladder-markov.json"}
JUDGEMENTS, CERTIFICATE = "judgements.jsonl", "certificate.json"
WITHDRAWN = "certificate-withdrawn.json"


class Ends(NamedTuple):
    """The policies at the two ends of a ladder.

    Attributes:
      start: where the ladder starts: the logging policy, or a fit to it.
      learned: the policy that the training would hand out.
      behaviour: the logging policy, or what stands in for it; its densities show whether it is.
    """

    start: Policy
    learned: Policy
    behaviour: Policy


def sha256_of(tree: Any) -> str:
    """SHA-256 of the arrays of a policy or of episodes, with their places."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array)):
        array = np.asarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def make_ladder(
    run: Path,
    ends: Ends,
    log: Trajectories,
    discount: float,
    *,
    seed: int,
    assume: Assumption = "nothing",
) -> None:
    """Choose the rungs with the episodes that training learned from, unless they were chosen."""
    with contextlib.suppress(CertificateError):
        read_ladder(run, ends, assume)
        return
    start, learned, behaviour = ends
    rungs = evaluation.rungs(
        start, learned, log, discount, behaviour=behaviour, assume=assume, seed=seed
    )
    places = [{"share": rung.share, "spread": rung.spread} for rung in rungs]
    content = {"learned_sha256": sha256_of(learned), "rungs": places}
    atomic_io.write_file(run / LADDER[assume], (json.dumps(content, indent=1) + "\n").encode())


def read_ladder(run: Path, ends: Ends, assume: Assumption = "nothing") -> tuple[Rung, ...]:
    """The rungs that the training chose.

    Raises:
      CertificateError: if there are none, or they belong to another policy.
    """
    path = run / LADDER[assume]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        places = [(float(one["share"]), float(one["spread"])) for one in content["rungs"]]
        sha256 = content["learned_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CertificateError(
            f"{path}", f"no ladder ({error})", f"Finish the training: gamps resume {run}"
        ) from error
    if not places or sha256 != sha256_of(ends.learned):
        fix = f"Delete it and run gamps resume {run}"
        raise CertificateError(f"{path}", "belongs to another policy", fix)
    return tuple(Rung(*place, between(ends.start, ends.learned, *place)) for place in places)


def judgements(run: Path) -> list[dict[str, Any]]:
    """All judgements of a run, the oldest first.

    Raises:
      CertificateError: if the record cannot be read: the error spent is then unknown.
    """
    path = run / JUDGEMENTS
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        fix = "Train again, or judge by another log"
        raise CertificateError(f"{path}", f"cannot be read ({error})", fix) from error


def number_of(run: Path, question: dict[str, Any], episodes: Sequence[str] = ()) -> int:
    """Return the number of a judgement by these episodes, from one; repeated questions keep theirs.

    Args:
      run: the folder.
      question: what is asked; `episodes_sha256` identifies the episodes together.
      episodes: a digest of each, if they are of another log: a judgement that used some of them
        counts as one by these episodes.
    """
    asked = _asked(run, question, episodes)
    numbers = [one["number"] for one in asked if one["question"] == question]
    return numbers[0] if numbers else len(asked) + 1


def error_spent(run: Path, question: dict[str, Any], episodes: Sequence[str] = ()) -> float:
    """Return the error of all judgements by these episodes."""
    asked = _asked(run, question, episodes)
    return sum((1 - one["question"]["confidence"]) / 2 ** (one["number"] - 1) for one in asked)


def _asked(run: Path, question: dict[str, Any], episodes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the judgements that used any of these episodes, the oldest first."""
    same, these = question["episodes_sha256"], set(episodes)
    return [
        one
        for one in judgements(run)
        if one["question"]["episodes_sha256"] == same or these.intersection(one.get("episodes", ()))
    ]


def record(
    run: Path,
    question: dict[str, Any],
    answer: dict[str, Any],
    policy: Policy,
    episodes: Sequence[str] = (),
) -> None:
    """Record a judgement; write the certificate, or delete the old one."""
    content = {"gamps": __version__, "question": question} | plain(answer)
    content |= {"policy_sha256": sha256_of(policy), "settings_sha256": folder.digest(run)}
    try:
        with folder.locked(run):
            if number_of(run, question, episodes) != content["number"]:
                raise OutputError(f"{run}: judged by another process meanwhile. Ask again")
            if not any(one["question"] == question for one in judgements(run)):
                with (run / JUDGEMENTS).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(content | {"episodes": list(episodes)}) + "\n")
            if content["word"] == evaluation.DEPLOY:
                text = json.dumps(content, indent=1) + "\n"
                atomic_io.write_file(run / CERTIFICATE, text.encode())
            else:
                (run / CERTIFICATE).unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"{run}: {error.strerror}. A judgement must be recorded") from error


def withdraw(run: Path) -> None:
    """Withdraw a certificate: rename it, so that no policy is handed out by it."""
    with contextlib.suppress(FileNotFoundError):
        (run / CERTIFICATE).replace(run / WITHDRAWN)


def certified(run: Path, ends: Ends, *, withdrawn: bool = False) -> tuple[Policy, dict[str, Any]]:
    """Return the policy that may be deployed, or the withdrawn one, and its certificate.

    Raises:
      CertificateError: if there is none, or it is for another run, log or policy.
    """
    path = run / (WITHDRAWN if withdrawn else CERTIFICATE)
    fix = f"Run gamps evaluate {run}, or export the unjudged policy with --which learned"
    if not path.exists():
        problem = "missing: nobody has judged the run, or the last judgement did not say deploy"
        raise CertificateError(f"{path}", problem, fix)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rung = content["rung"]
        policy = between(ends.start, ends.learned, rung["share"], rung["spread"])
        known = [content[name] for name in ("policy_sha256", "settings_sha256", "word")]
        known.append(content["log_sha256"])
        log = log_sha256(content["log"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CertificateError(f"{path}", f"no certified policy ({error})", fix) from error
    # A log that is gone cannot be compared; one that has changed can.
    expected = [sha256_of(policy), folder.digest(run), evaluation.DEPLOY]
    expected.append(known[-1] if log == NO_LOG else log)
    names = ("policy", "settings", "word", "log")
    for name, one, other in zip(names, known, expected, strict=True):
        if one != other:
            raise CertificateError(f"{path}", f"belongs to another {name}", fix)
    return policy, content
