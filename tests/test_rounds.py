"""Rounds: what is spent, what judges, what is rolled back, and a campaign that is taken up."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets
from gamps.cli import main
from gamps.envs import Minigolf
from gamps.errors import DatasetError, OutputError, RunError, SettingError
from gamps.evaluation.estimates import made
from gamps.runs import rounds, start
from gamps.runs.campaign import CampaignSpec, campaign, named
from gamps.runs.evaluate_run import evaluate_run
from gamps.runs.open_run import open_run
from gamps.runs.spec import TrainSpec
from gamps.trajectories import first_steps

GOLF = Minigolf()
TASK = "gamps.envs.minigolf:task"


pytestmark = pytest.mark.usefixtures("short_climbs")


@pytest.fixture(autouse=True)
def minari(monkeypatch, tmp_path):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def collect(policy, key, n=60):
    return datasets.collect(GOLF, policy, key, n=n, steps=20)


def policy(std):
    start = GOLF.policy()
    return eqx.tree_at(lambda p: p.log_std, start, jnp.log(jnp.full_like(start.log_std, std)))


def logged(name, acting, seed, n=60):
    datasets.save(name, collect(acting, jax.random.key(seed), n), acting, discount=0.99)
    return name


def test_all_rounds_together_spend_no_more_than_the_error():
    spent = [rounds.error_of(k, 0.05) for k in range(1, 10_000)]
    assert 0.0499 < sum(spent) < 0.05
    assert spent == sorted(spent, reverse=True)
    assert sum(rounds.error_of(k, 0.05, rounds=7) for k in range(1, 8)) == pytest.approx(0.05)


def test_only_the_newest_episodes_are_left_to_judge():
    """Two earlier rounds are learned from, whole; of the third a half is held out."""
    old, new, third = (
        datasets.Dataset(collect(policy(std), jax.random.key(k), n), policy(std), 0.99, None)
        for k, (std, n) in enumerate(((1.0, 30), (0.8, 20), (0.6, 24)))
    )
    two = datasets.pooled(old, new, "second")
    data = datasets.pooled(two, third, "third")
    assert data.labels.judged == 50
    assert data.behaviour is third.behaviour
    learned, held_out = datasets.split_dataset(data, 0.5, seed=3)
    assert learned.trajectories.n_trajectories == 62
    assert set(held_out.labels.controllers) == {"third"}
    assert made(third.behaviour, held_out.trajectories)
    # Dividing once more must not take judged episodes for granted.
    assert learned.labels.judged == 0
    with pytest.raises(DatasetError, match="third is in the old log"):
        datasets.pooled(data, third, "third")
    datasets.save("rounds/all-v0", data.trajectories, data.behaviour, labels=data.labels)
    assert datasets.load("rounds/all-v0").labels == data.labels


def test_harm_is_shown_by_its_own_episodes_and_rolled_back(tmp_path, monkeypatch):
    """Policies that a certificate names: one with ten times the noise, and one with little."""
    run = _judged_run(tmp_path, "rounds/first-v0")
    noisy = logged("rounds/noisy-v0", policy(10.0), 5)
    calm = logged("rounds/calm-v0", policy(0.3), 6)
    (run / "certificate.json").unlink(missing_ok=True)
    assert rounds.measured(run, noisy) is None  # nothing was deployed
    (run / "certificate.json").write_text("{}")
    monkeypatch.setattr(rounds, "certified", lambda *_, **__: (policy(0.3), {}))
    assert not rounds.measured(run, calm).harm
    with pytest.raises(SettingError, match="was not made by the policy that"):
        rounds.measured(run, noisy)
    short = first_steps(collect(policy(0.3), jax.random.key(7), 60), 3)
    datasets.save("rounds/short-v0", short, policy(0.3), discount=0.99)
    with pytest.raises(SettingError, match="episodes of up to 3 steps, rounds/first-v0 up"):
        rounds.measured(run, "rounds/short-v0")
    monkeypatch.setattr(rounds, "certified", lambda *_, **__: (policy(10.0), {}))
    assert rounds.measured(run, noisy).harm
    with pytest.raises(SystemExit) as left:
        main(["next", str(run), "--log", noisy, "--out", f"{tmp_path / 'b'}",
              "--dataset", "rounds/more-v0"])  # fmt: skip
    assert left.value.code == 5
    assert not (run / "certificate.json").exists()
    assert (run / "certificate-withdrawn.json").exists()
    assert not (tmp_path / "b").exists()
    monkeypatch.setattr(rounds, "in_charge", lambda _: policy(0.3))
    assert rounds.measured(run, calm) is None  # of the policy that is in charge again
    assert rounds.measured(run, noisy).harm


def test_the_test_for_harm_holds_its_rate():
    """Equal policies: of 400 pairs of logs at most 8 % are called harmful (5 % are expected)."""
    log = collect(GOLF.policy(), jax.random.key(9), 24_000)
    returns = rounds.returns_of(log, 0.99).reshape(400, 2, 30)
    alarms = [rounds.compared(new, old, 0.95).harm for new, old in returns]
    assert np.mean(alarms) <= 0.08


def _judged_run(tmp_path, name):
    logged(name, GOLF.policy(), 0)
    run = tmp_path / "first"
    start(TrainSpec(name, task=TASK, iterations=2), run).train()
    rounds.first_round(run)
    return run


def test_next_learns_from_all_logs_and_keeps_its_history(tmp_path, capsys):
    run = _judged_run(tmp_path, "rounds/first-v0")
    acting = rounds.in_charge(run)
    new = logged("rounds/new-v0", acting, 1)
    other = logged("rounds/other-v0", policy(0.7), 2)
    with pytest.raises(SettingError, match="was not made by the policy that"):
        rounds.next_round(run, other, tmp_path / "x", "rounds/x-v0")
    words = ["next", str(run), "--log", new, "--out", f"{tmp_path / 'b'}"]
    with pytest.raises(SystemExit) as left:
        main([*words, "--dataset", "rounds/all-v0"])
    assert left.value.code in (0, 3, 4)
    assert "2 rounds deployed a worse policy: at most 0.033" in _said(capsys)
    first, second = rounds.history_of(tmp_path / "b")
    assert [first.error, second.error] == pytest.approx([0.025, 0.05 / 6])
    by_hand = rounds.returns_of(datasets.of_newest(datasets.load("rounds/all-v0")), 0.99).mean()
    assert second.earned == pytest.approx(by_hand, rel=1e-5)
    with pytest.raises(OutputError, match="holds another log"):
        rounds.next_round(run, new, tmp_path / "b", "rounds/first-v0")
    with pytest.raises(SettingError, match="was continued by"):  # its error would be spent twice
        rounds.next_round(run, new, tmp_path / "c", "rounds/c-v0")
    judged = json.loads((tmp_path / "b" / "judgements.jsonl").read_text().splitlines()[-1])
    assert judged["question"]["confidence"] == pytest.approx(1 - 0.05 / 6)


def _said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_several_logs_are_learned_from_as_one(tmp_path, capsys):
    """Those of the last controller judge; each density is that of the episode's own controller."""
    first = logged("rounds/may-v0", GOLF.policy(), 0)
    second = logged("rounds/june-v0", policy(0.7), 1, n=40)
    both = datasets.load(f"{first}+{second}")
    assert both.trajectories.n_trajectories == 100
    assert both.labels.controllers == (first,) * 60 + (second,) * 40
    assert made(policy(0.7), datasets.of_newest(both))
    alone = datasets.load(first).trajectories
    assert np.asarray(both.trajectories.behaviour_log_prob)[:60, : alone.n_steps] == pytest.approx(
        np.asarray(alone.behaviour_log_prob)
    )
    words = ["--task", TASK, "--iterations", "1", "--out", str(tmp_path / "run")]
    main(["train", first, second, *words])
    assert open_run(tmp_path / "run").data.labels.newest == second
    found = evaluate_run(tmp_path / "run")
    assert (found.by, found.against) == (f"{first}+{second}", "newest")
    assert found.run.held_out.n_trajectories < 40
    with pytest.raises(SystemExit):
        main(["train", first, second, "--stream", *words[:-1], str(tmp_path / "other")])
    assert "several logs" in capsys.readouterr().err
    datasets.save("rounds/other-v0", alone, GOLF.policy(), discount=0.5)
    with pytest.raises(DatasetError, match=r"discount 0\.5, but the first log has 0\.99"):
        datasets.load(f"{first}+rounds/other-v0")


def test_a_run_that_nobody_judged_has_no_next(tmp_path):
    logged("rounds/first-v0", GOLF.policy(), 0)
    start(TrainSpec("rounds/first-v0", task=TASK, iterations=2), tmp_path / "first").train()
    new = logged("rounds/new-v0", GOLF.policy(), 1)
    with pytest.raises(RunError, match="nobody has judged it"):
        rounds.next_round(tmp_path / "first", new, tmp_path / "b", "rounds/all-v0")
    grown = logged("rounds/grown-v0", GOLF.policy(), 0, n=90)  # the first log, and more
    with pytest.raises(SettingError, match="only 30 of 90 episodes of rounds/grown-v0 are new"):
        rounds.next_round(tmp_path / "first", grown, tmp_path / "b", "rounds/all-v0")


def test_a_log_of_a_controller_that_only_a_fit_stands_in_for(tmp_path):
    """Nothing can tell whether the new log is of it, so it is not refused."""

    def bent(seed, name):
        acting = GOLF.policy()
        log = collect(acting, jax.random.key(seed), 60)
        densities = log.behaviour_log_prob + 0.3 * jnp.tanh(log.actions[..., 0] - 2.0)
        log = eqx.tree_at(lambda t: t.behaviour_log_prob, log, densities)
        datasets.save(name, log, None, discount=0.99)
        return name

    spec = TrainSpec(bent(0, "rounds/first-v0"), task=TASK, iterations=2, seed=3)
    start(spec, tmp_path / "first").train()
    run = tmp_path / "first"
    rounds.first_round(run)
    assert not made(open_run(run).ends.behaviour, open_run(run).learned)
    evaluate_run(run, log=bent(1, "rounds/judge-v0"))
    if rounds.was_deployed(run) is None:
        rounds.next_round(run, bent(2, "rounds/new-v0"), tmp_path / "b", "rounds/all-v0")
        assert len(rounds.history_of(tmp_path / "b")) == 2


def test_a_campaign_is_taken_up_where_it_stood(tmp_path, monkeypatch):
    """Stopped in its second round, it ends with the decisions of one that was not."""
    spec = CampaignSpec("whole", TASK, rounds=2, iterations=2)
    whole = campaign(spec, tmp_path / "whole", GOLF.policy(), collect)
    stopped = CampaignSpec("stopped", TASK, rounds=2, iterations=2)

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gamps.runs.campaign.next_round", dies)
        with pytest.raises(KeyboardInterrupt):
            campaign(stopped, tmp_path / "stopped", GOLF.policy(), collect)
    again = campaign(stopped, tmp_path / "stopped", GOLF.policy(), collect)
    for one, other in zip(whole.rounds, again.rounds, strict=True):
        assert one._replace(run="", log="") == other._replace(run="", log="")
    assert whole.measured == again.measured
    assert [one.error for one in whole.rounds] == pytest.approx([0.025, 0.025])
    with pytest.raises(RunError, match="another campaign"):
        campaign(spec, tmp_path / "stopped", GOLF.policy(), collect)
    with pytest.raises(OutputError, match="a log of an earlier campaign"):  # of what, who knows?
        campaign(spec, tmp_path / "again", GOLF.policy(), collect)


def test_what_else_judged_a_run_has_spent_error_too(tmp_path):
    """A first round at 2.5 %, and then `gamps evaluate` at 10 %, halved as the second judgement."""
    run = _judged_run(tmp_path, "rounds/first-v0")
    evaluate_run(run, confidence=0.9)
    new = logged("rounds/new-v0", rounds.in_charge(run), 1)
    rounds.next_round(run, new, tmp_path / "b", "rounds/all-v0")
    assert rounds.history_of(tmp_path / "b")[0].error == pytest.approx(0.025 + 0.05)


def test_campaigns_of_other_settings_do_not_share_logs():
    names = {named(CampaignSpec("tanks", seed=seed), "log1") for seed in (0, 1)}
    assert len(names) == 2
