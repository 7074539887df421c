"""Trials: what takes over, how often by chance, and a campaign that is taken up."""

import itertools
import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets
from gamps.cli import main
from gamps.envs import Minigolf, TwoTanks, tanks
from gamps.errors import RunError
from gamps.evaluation.duel import rank_p, shown_better
from gamps.learner import trials as proposals
from gamps.learner.model_classes import NETWORK_FIT
from gamps.learner.trials import Elites, elites, parameters_of, unit_parameters, with_parameters
from gamps.runs import trials
from gamps.runs.campaign import CampaignSpec

GOLF = Minigolf()
TASK = "gamps.envs.minigolf:task"


@pytest.fixture(autouse=True)
def short(monkeypatch, tmp_path):
    """A small search within models that are fitted in a moment."""
    monkeypatch.setitem(NETWORK_FIT, "updates", 300)
    monkeypatch.setattr(proposals, "POOL", 40)
    monkeypatch.setattr(proposals, "GENERATIONS", 2)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def collect(policy, key, n):
    return datasets.collect(GOLF, policy, key, n=n, steps=20)


@pytest.mark.parametrize(("new", "old"), [(2, 3), (4, 3), (3, 5)])
def test_ranks_are_those_of_all_orders(new, old):
    """By enumeration of which of the places are the new one's."""
    values = np.arange(float(new + old))
    for places in itertools.combinations(range(new + old), new):
        mine = np.isin(np.arange(new + old), places)
        won = (values[mine][:, None] > values[~mine]).sum()
        as_many = 0
        for others in itertools.combinations(range(new + old), new):
            theirs = np.isin(np.arange(new + old), others)
            as_many += (values[theirs][:, None] > values[~theirs]).sum() >= won
        ways = len(list(itertools.combinations(range(new + old), new)))
        assert rank_p(values[mine], values[~mine]) == pytest.approx(as_many / ways)


def test_ties_do_not_help_the_new_one():
    assert rank_p(np.ones(6), np.ones(6)) == 1.0
    assert not shown_better(np.ones(6), np.ones(6), 0.5)


@pytest.mark.parametrize("shape", ["normal", "skewed", "two heights"])
def test_what_is_no_better_passes_as_seldom_as_was_said(shape):
    """At 5 % of 4,000 duels of equals; false alarm: five standard errors above, below 1e-6."""
    rng = np.random.default_rng(3)
    draw = {
        "normal": rng.standard_normal,
        "skewed": lambda size: rng.exponential(size=size) ** 2,
        "two heights": lambda size: (
            rng.choice([0.0, 1.0], p=[0.2, 0.8], size=size) + 1e-3 * rng.standard_normal(size)
        ),
    }[shape]
    passed = np.mean([shown_better(draw(8), draw(8), 0.05) for _ in range(4_000)])
    assert passed < 0.05 + 5 * np.sqrt(0.05 * 0.95 / 4_000)


def test_a_duel_of_a_far_better_one_ends_at_the_first_look():
    worth = {"old": 0.0, "new": 10.0}
    rng = np.random.default_rng(0)

    names = []

    def earn(name, policy):
        del policy
        names.append(name)
        return worth["new" if name == trials.CHALLENGER else "old"] + rng.standard_normal()

    policy = GOLF.policy()
    now = trials.Tried([], [], [], parameters_of(policy).tolist(), [], [], False, 0.01)
    after = trials.duel(now, policy, policy, 24, earn)
    assert after.took_over
    assert len(after.of_incumbent) == 6
    assert len(after.of_challenger) == 18  # the rest are of who is in charge now
    assert names[:4] == [trials.INCUMBENT, trials.CHALLENGER] * 2
    worth["new"] = -10.0
    after = trials.duel(now, policy, policy, 24, earn)
    assert not after.took_over
    assert (len(after.of_challenger), len(after.of_incumbent)) == (6, 18)


def test_elites_are_the_best_of_all_that_was_tried():
    tried = np.arange(12.0).reshape(6, 2)
    found = elites(tried, np.array([0, 9, 1, 8, 2, 3.0]), 2, np.array([1.0, 0.0]))
    assert found.centre.tolist() == [4.0, 5.0]
    assert found.spread.tolist() == [2.0 + 0.1, 2.0]


def test_parameters_go_there_and_back_and_the_deviation_has_no_unit():
    policy = GOLF.policy()
    row = parameters_of(policy)
    assert with_parameters(policy, row + 1).weights == pytest.approx(policy.weights + 1)
    log = collect(policy, jax.random.key(0), 20)
    moved = with_parameters(policy, unit_parameters(policy, log))
    assert (np.asarray(moved.log_std) == 0).all()
    assert (np.asarray(moved.weights) > 0).all()


def test_what_the_models_choose_earns_more():
    """On the tanks, than what is drawn around the same controller."""

    def log_of(policy, seed, n):
        return datasets.collect(TwoTanks(), policy, jax.random.key(seed), n=n, steps=60)

    log, policy = log_of(tanks.policy(), 0, 50), trials._calm(tanks.policy())
    spec = CampaignSpec("tanks", "gamps.envs.tanks:task", rounds=1)
    within = trials._imagination(spec, jax.random.key(1), [log], None)
    around = Elites(parameters_of(policy), unit_parameters(tanks.policy(), log))
    earned = {}
    for name, models in (("drawn", None), ("chosen", within)):
        rows = proposals.propose(jax.random.key(2), around, 20, policy, models)
        assert rows.shape == (20, len(around.centre))
        logs = [log_of(with_parameters(policy, row), 3, 20) for row in rows]
        earned[name] = np.mean([trials.returns_of(one, 0.99).mean() for one in logs])
    assert earned["chosen"] > earned["drawn"]


def test_a_campaign_of_trials_is_taken_up_where_it_stood(tmp_path, monkeypatch):
    spec = CampaignSpec("golf", TASK, rounds=2, episodes=24, mode="trials", seed=3)
    limits = (np.array([0.0]), np.array([5.0]))  # of the actuators; the actions are gentler
    hits = partial(trials.try_in_rounds, limits=limits)
    whole = hits(spec, tmp_path / "whole", GOLF.policy(), collect)
    assert len(whole.rounds) == 2
    assert len(whole.deployed) == 3
    first, second = whole.rounds
    assert first.challenger is None
    assert (len(first.earned), len(first.of_incumbent)) == (12, 12)
    assert len(second.of_challenger) + len(second.of_incumbent) == 12
    assert len(second.promised) == 12
    log = datasets.load("campaign/golf-" + _digest(spec) + "-log2-v0")
    assert log.trajectories.n_trajectories == 24
    assert log.limits == limits
    kept = (tmp_path / "whole" / "round-2.json").read_bytes()

    class Killed(Exception):
        pass

    def dies(*_, **__):
        raise Killed

    (tmp_path / "whole" / "round-2.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("gamps.runs.trials.atomic_io.write_file", dies)
        with pytest.raises(Killed):
            hits(spec, tmp_path / "whole", GOLF.policy(), collect)
    hits(spec, tmp_path / "whole", GOLF.policy(), collect)
    assert (tmp_path / "whole" / "round-2.json").read_bytes() == kept
    other = CampaignSpec("golf", TASK, rounds=2, episodes=24, mode="trials", seed=4)
    with pytest.raises(RunError, match="another campaign"):
        trials.try_in_rounds(other, tmp_path / "whole", GOLF.policy(), collect)


def _digest(spec):
    return trials.named(spec, "x").split("-")[1]


def test_the_command_tries_and_hands_out(tmp_path, capsys):
    """On the pendulum; a policy is there exactly if a challenger took over."""
    pytest.importorskip("mujoco")
    out = tmp_path / "pendulum"
    main([
        "campaign", "InvertedPendulum-v5", "--mode", "trials", "--rounds", "2", "--episodes", "30",
        "--steps", "50", "--task", "gamps.envs.pendulum:task", "--out", f"{out}",
    ])  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert "30 trials earned" in said
    rounds = [json.loads((out / f"round-{k}.json").read_text()) for k in (1, 2)]
    assert (out / "policy" / "policy.json").exists() == rounds[1]["took_over"]
    assert np.isfinite(jnp.asarray(rounds[1]["trials"])).all()
    main(["report", f"{out}"])
    text = (out / "report.html").read_text()
    assert "What the models promised" in text
    assert text.count("<img") == 2
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "campaign.json").write_bytes((out / "campaign.json").read_bytes())
    with pytest.raises(SystemExit):
        main(["report", f"{tmp_path / 'none'}"])
    assert "no round is finished yet" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["campaign", "InvertedPendulum-v5", "--mode", "trials", "--share", "0.9",
              "--out", f"{tmp_path / 'few'}"])  # fmt: skip
    assert "leaves 2 episodes for each side of a duel" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(SystemExit):  # a certified campaign would judge by the task's
        main(["campaign", "InvertedPendulum-v5", "--task", "gamps.envs.pendulum:task",
              "--discount", "0.5", "--out", f"{tmp_path / 'other'}"])  # fmt: skip
    assert "the task's 0.99" in " ".join(capsys.readouterr().err.split())


def test_a_campaign_knows_what_the_actuators_carry_out():
    pytest.importorskip("mujoco")
    low, high = datasets.action_limits("InvertedPendulum-v5")
    assert (low, high) == (-3, 3)
    assert datasets.action_limits("CartPole-v1") is None
