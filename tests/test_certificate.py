"""One policy: what was judged is what is handed out, and nothing else without a word of warning."""

import itertools
import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import gamps
from gamps import datasets, evaluation
from gamps.cli import main
from gamps.deployment import load
from gamps.envs import TwoTanks, collect, tanks
from gamps.errors import CertificateError, CheckpointError, OutputError, SettingError
from gamps.policies import log_probs
from gamps.runs import SearchTraining, TrainSpec, certificate, start
from gamps.runs.evaluate_run import evaluate_run
from gamps.runs.open_run import open_run

LOG = collect(TwoTanks(), tanks.policy(), jax.random.key(2), n=300, steps=8)
SPEC = TrainSpec(
    "tanks/day-v0",
    task="gamps.envs.tanks:task",
    recipe="pgt",
    iterations=8,
    learning_rate=0.1,
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(folder / "data"))
        datasets.save(SPEC.log, LOG, tanks.policy(), discount=0.98)
        # The last policy is taken, whatever selection would say of eight small steps.
        promises = itertools.count()
        said = {"estimate": 0.0, "held_out_ess": 9.0}
        judged = lambda self, policy: said | {"promise": float(next(promises))}  # noqa: E731
        patch.setattr(SearchTraining, "_judge", judged)
        start(SPEC, folder / "run").train()
        yield folder / "run"


@pytest.fixture(scope="module")
def certified(trained):
    """The same, after a judgement that says deploy."""
    assert status("evaluate", copied(trained, trained.parent / "judged")) == 0
    return trained.parent / "judged"


@pytest.fixture
def run(certified, tmp_path):
    """A certified one to do anything with."""
    return copied(certified, tmp_path / "run")


def copied(run, target):
    return Path(shutil.copytree(run, target))


def status(*words):
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    return caught.value.code


def test_training_leaves_a_ladder_of_what_it_learned_from(trained):
    """Other episodes in the held-out part: the same ladder, since nobody has looked at them."""
    opened = open_run(trained)
    rungs = certificate.read_ladder(trained, opened.ends)
    assert not (trained / "judgements.jsonl").exists()
    again = evaluation.rungs(
        opened.ends.start, opened.ends.learned, opened.learned, 0.98,
        behaviour=tanks.policy(), seed=SPEC.seed,
    )  # fmt: skip
    assert [rung[:2] for rung in again] == [rung[:2] for rung in rungs]
    effective = [evaluation.support(r.policy, opened.learned).ess for r in rungs]
    assert effective == sorted(effective, reverse=True)


def test_nothing_is_handed_out_unjudged(trained, capsys):
    assert status("export", trained) == 2
    assert "gamps evaluate" in capsys.readouterr().err
    assert not (trained / "policy").exists()


def test_from_a_verdict_to_the_policy_that_acts(run, capsys):
    assert status("evaluate", run) == 0
    shown = capsys.readouterr().out
    assert "certified" in shown
    assert "150 episodes can miss a rare failure" in shown
    found = json.loads((run / "certificate.json").read_text())
    assert found["word"] == "deploy"
    assert {"policy_sha256", "settings_sha256", "log_sha256"} <= found.keys()
    main(["export", str(run)])
    exported = gamps.load_policy(run / "policy")
    assert exported.certificate == found
    opened = open_run(run)
    policy, _ = certificate.certified(run, opened.ends)
    judged = evaluate_run(run)
    assert certificate.sha256_of(judged.evaluation.policy) == certificate.sha256_of(policy)
    # By density: draws of the exported program against the distribution of the judged policy.
    observation = jnp.asarray([0.3, 0.5])
    generator = np.random.default_rng(0)
    drawn = [float(exported.sample(observation, generator)[0]) for _ in range(1_000)]
    normal = scipy.stats.norm(float(policy.mean(observation)[0]), float(np.exp(policy.log_std[0])))
    assert scipy.stats.kstest(drawn, normal.cdf).pvalue > 1e-3
    logs = [float(policy.log_prob(observation, jnp.asarray([a]))) for a in drawn[:20]]
    np.testing.assert_allclose(logs, normal.logpdf(drawn[:20]), rtol=1e-5)
    learned = scipy.stats.norm(
        float(opened.ends.learned.mean(observation)[0]),
        float(np.exp(opened.ends.learned.log_std[0])),
    )
    assert scipy.stats.kstest(drawn, learned.cdf).pvalue < 1e-3
    with pytest.raises(CheckpointError, match="mean-action"):
        exported.mean_action(observation)
    with pytest.raises(CheckpointError, match=r"observation: \[nan, 0.5\]"):
        exported.sample(np.array([np.nan, 0.5]), generator)
    evaluate_run(run, confidence=0.999999)  # not shown: the certificate is gone
    main(["play", str(run), "--env", "gamps/TwoTanks-v0", "--episodes", "1"])
    assert "no longer certifies this policy" in " ".join(capsys.readouterr().out.split())


def test_what_is_played_is_what_was_judged(run, monkeypatch):
    """As many actions as steps have come from `sample` of the certified policy, with its noise."""
    main(["export", str(run)])
    drawn, sample = [], load.DeployedPolicy.sample

    def sampled(self, *rest):
        drawn.append(sample(self, *rest))
        return drawn[-1]

    monkeypatch.setattr(load.DeployedPolicy, "sample", sampled)
    main(["play", str(run), "--env", "gamps/TwoTanks-v0", "--episodes", "1", "--seed", "3"])
    assert len(drawn) == tanks.HORIZON
    assert np.std(drawn) > 0


def test_judging_again_by_the_same_episodes_spends_error(run, capsys):
    assert evaluate_run(run).number == 1  # the same question has the same answer
    again = evaluate_run(run, confidence=0.9)
    assert again.number == 2
    assert (again.error, again.spent) == pytest.approx((0.05, 0.05 + 0.05))
    grades = {"good": 0.95, "fair": 0.975}
    for one in again.evaluation.judged:
        if one.support.grade in grades:
            assert one.improvement.confidence == pytest.approx(grades[one.support.grade])
    assert len((run / "judgements.jsonl").read_text().splitlines()) == 2
    capsys.readouterr()
    status("evaluate", run, "--confidence", "0.9")
    assert "judgement 2 by these episodes" in capsys.readouterr().out
    more = collect(TwoTanks(), tanks.policy(), jax.random.key(8), n=100, steps=8)
    datasets.save("tanks/more-v0", more, tanks.policy(), discount=0.98, overwrite=True)
    assert evaluate_run(run, log="tanks/more-v0").number == 1  # fresh episodes, fresh error


def test_two_judgements_at_once_do_not_share_their_number(run, monkeypatch):
    """A second one is recorded while the first computes: the first must ask again."""
    kept, said = certificate.judgements(run), []
    write = certificate.record

    def late(*arguments):
        said.append(arguments)
        (run / "judgements.jsonl").write_text("")  # as it was before either had finished
        with (run / "judgements.jsonl").open("w") as file:
            for one in [*kept, kept[0] | {"question": kept[0]["question"] | {"confidence": 0.5}}]:
                file.write(json.dumps(one) + "\n")
        write(*arguments)

    monkeypatch.setattr("gamps.runs.evaluate_run.record", late)
    with pytest.raises(OutputError, match="judged by another process"):
        evaluate_run(run, confidence=0.8)
    assert len(said) == 1


def test_a_log_of_another_controller_does_not_judge(run):
    noisier = tanks.policy(0.5)
    log = collect(TwoTanks(), noisier, jax.random.key(6), n=90, steps=8)
    datasets.save("tanks/noisier-v0", log, noisier, discount=0.98, overwrite=True)
    for against in ("newest", "all"):
        with pytest.raises(SettingError, match="did not make tanks/noisier-v0"):
            evaluate_run(run, log="tanks/noisier-v0", against=against)


def test_a_report_repeats_the_last_question(run, capsys):
    """It spends no error and keeps the certificate, whatever was asked."""
    assert evaluate_run(run, confidence=0.9).number == 2
    asked = (run / "judgements.jsonl").read_bytes()
    main(["report", str(run)])
    assert "instead of 0.95" in " ".join(capsys.readouterr().out.split())  # half of .1
    assert (run / "judgements.jsonl").read_bytes() == asked


def test_logs_that_share_episodes_share_their_error(run):
    """Logging on until the verdict is *deploy* must not come for free."""
    fresh = collect(TwoTanks(), tanks.policy(), jax.random.key(7), n=90, steps=8)
    for name, first, last in (("first", 0, 30), ("more", 0, 60), ("later", 60, 90)):
        part = jax.tree.map(lambda x, rows=slice(first, last): x[rows], fresh)
        datasets.save(f"tanks/{name}-v0", part, tanks.policy(), discount=0.98, overwrite=True)
    assert evaluate_run(run, log="tanks/first-v0").number == 1
    again = evaluate_run(run, log="tanks/more-v0")
    assert again.number == 2
    assert (again.error, again.spent) == pytest.approx((0.025, 0.05 + 0.025))
    assert evaluate_run(run, log="tanks/more-v0").number == 2  # the same question
    assert evaluate_run(run, log="tanks/later-v0").number == 1
    assert evaluate_run(run, log="tanks/first-v0").number == 1


def test_what_is_assumed_is_part_of_the_question(run):
    found = evaluate_run(run, assume="markov")
    assert found.number == 2
    assert {rung[:2] for rung in found.rungs} >= {
        (one["share"], one["spread"])
        for one in json.loads((run / "ladder-markov.json").read_text())["rungs"]
    }
    kept = json.loads((run / "judgements.jsonl").read_text().splitlines()[-1])
    assert kept["question"]["assume"] == "markov"
    assert "assuming that observations are Markov" in kept["why"]
    policy, known = certificate.certified(run, open_run(run).ends)
    assert known["question"] == kept["question"]
    assert certificate.sha256_of(policy) == kept["policy_sha256"]


def test_declared_bounds_of_the_return_are_another_question(run, capsys):
    """With them the bound is the guaranteed one: by hand, and stricter than the usual one."""
    held_out = open_run(run).held_out
    returns = np.asarray(held_out.rewards, np.float64) @ 0.98 ** np.arange(held_out.n_steps)
    lowest, highest = float(np.floor(returns.min())), 0.0
    usual = evaluate_run(run).evaluation.judged
    found = evaluate_run(run, returns=(lowest, highest))
    assert found.number == 2
    error = 0.025 / len(found.rungs)
    for rung, one, before in zip(found.rungs, found.evaluation.judged, usual, strict=True):
        both = (log_probs(p, held_out).sum(axis=1) for p in (rung.policy, tanks.policy()))
        ratios = np.exp(np.subtract(*map(np.asarray, both)))
        low = evaluation.guaranteed_gain(
            ratios, returns, lowest=lowest, highest=highest, confidence=1 - error
        )
        assert one.improvement.low == pytest.approx(low, abs=1e-4)
        assert one.improvement.low < before.improvement.low
    assert found.evaluation.verdict.unseen_loss is None
    kept = json.loads((run / "judgements.jsonl").read_text().splitlines()[-1])
    assert kept["question"]["returns"] == [lowest, highest]
    capsys.readouterr()
    for words, named in (
        ((returns.min() + 1, highest), "range of returns"),
        ((lowest, highest, "--assume", "markov"), "returns"),
    ):
        assert status("evaluate", run, "--returns", *words) == 2
        assert named in capsys.readouterr().err
    assert len((run / "judgements.jsonl").read_text().splitlines()) == 2
    assert status("evaluate", run) == 0
    wide = status("evaluate", run, "--returns", 1e4 * lowest, 1e4)
    assert wide == 3  # bounds as wide as these show nothing
    assert "the earlier certificate is gone" in capsys.readouterr().out
    assert status("evaluate", run) == 0


def test_a_judgement_that_shows_nothing_takes_the_certificate_back(run):
    few = collect(TwoTanks(), tanks.policy(), jax.random.key(9), n=12, steps=8)
    datasets.save("tanks/few-v0", few, tanks.policy(), discount=0.98, overwrite=True)
    assert status("evaluate", run, "--log", "tanks/few-v0") == 3
    assert not (run / "certificate.json").exists()
    assert status("export", run) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("policy_sha256", "0" * 64), ("settings_sha256", "0" * 64), ("word", "not shown"),
     ("log_sha256", "0" * 64),
     ("rung", {"share": 0.9, "spread": 0.9}), ("rung", None)],
)  # fmt: skip
def test_a_certificate_of_something_else_is_refused(run, field, value, capsys):
    content = json.loads((run / "certificate.json").read_text())
    (run / "certificate.json").write_text(json.dumps(content | {field: value}))
    assert status("export", run) == 2
    assert "certificate.json" in capsys.readouterr().err
    assert not (run / "policy").exists()


def test_a_ladder_of_another_policy_is_refused(run):
    opened = open_run(run)
    other = opened.ends._replace(learned=tanks.policy())
    with pytest.raises(CertificateError, match="another policy"):
        certificate.read_ladder(run, other)
    (run / "judgements.jsonl").write_text("{")
    with pytest.raises(CertificateError, match="cannot be read"):
        evaluate_run(run)


def test_groups_of_another_log_judge_together(run, capsys):
    """Episodes of one day, twenty times the same: one of them counts, and bounds get wider."""
    fresh = collect(TwoTanks(), tanks.policy(), jax.random.key(9), n=300, steps=8)
    days = datasets.Labels(groups=tuple(f"day {i // 10}" for i in range(300)))
    for name, labels in (("tanks/alone-v0", datasets.Labels()), ("tanks/days-v0", days)):
        datasets.save(name, fresh, tanks.policy(), discount=0.98, labels=labels, overwrite=True)
    found = evaluate_run(run, log="tanks/days-v0")
    assert len(set(found.run.groups)) == 30
    assert not found.takes_bounds
    alone = evaluate_run(run, log="tanks/alone-v0")
    assert alone.run.groups is None
    assert found.evaluation.judged[0].improvement.low != alone.evaluation.judged[0].improvement.low
    assert status("evaluate", run, "--log", "tanks/days-v0", "--returns", -9e9, 9e9) == 2
    assert "groups" in capsys.readouterr().err


def test_a_withdrawn_certificate_does_not_come_back(run, capsys):
    certificate.withdraw(run)
    assert status("evaluate", run) == 3
    assert "it was deployed and did harm" in " ".join(capsys.readouterr().out.split())
    assert status("export", run) == 2
    assert not (run / certificate.CERTIFICATE).exists()
