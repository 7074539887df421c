"""The page of a run: whole, valid, asking nothing of anyone; and runs beside each other."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import jax
import numpy as np
import pytest

from gamps import datasets
from gamps.cli import main
from gamps.envs import TwoTanks, collect, tanks
from gamps.envs.two_areas import two_areas
from gamps.report import page, pictures

pytestmark = pytest.mark.usefixtures("short_climbs")
LOG = collect(TwoTanks(), tanks.policy(), jax.random.key(2), n=24, steps=12)
TASK = ["--task", "gamps.envs.tanks:task"]
VOID = {"meta", "img", "br"}


class Checked(HTMLParser):
    """Tags that close in order, and every address that is asked for."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.text, self.images = [], [], [], 0

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.addresses += [given[name] for name in ("src", "href") if name in given]
        assert tag not in {"script", "link", "iframe", "object"}
        if tag == "img":
            self.images += 1
            assert given["alt"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def checked(text):
    found = Checked()
    found.feed(text)
    found.close()
    assert found.open == []
    assert all(a.startswith("data:image/png;base64,") for a in found.addresses)
    assert not re.search(r"url\(|@import|https?://", text)
    return found


@pytest.fixture
def logged(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    datasets.save("tanks/day-v0", LOG, tanks.policy(), discount=0.98)
    return tmp_path


def trained(folder, name, *more):
    words = ["train", "tanks/day-v0", *TASK, "--iterations", "2", "--out", str(folder / name)]
    main([*words, *more])
    return str(folder / name)


def test_the_report_of_a_run_with_a_model(logged, capsys):
    run = trained(logged, "default", "--model", "linear")
    main(["report", run])
    assert "written:" in capsys.readouterr().out
    text = (logged / "default" / "report.html").read_text(encoding="utf-8")
    found = checked(text)
    assert len(text) < 5e6
    shown = " ".join(found.text)
    headings = ["May it be deployed?", "How it learned", "How much the log says",
                "How good the model is", "Where the judged policy differs", "Health of the log",
                "Details: other estimates", "Settings and versions"]  # fmt: skip
    places = [shown.index(heading) for heading in headings]
    assert places == sorted(places)
    assert "not shown to be better" in shown  # twelve episodes can show nothing
    assert "jaxlib" in shown
    pictures = sorted(p.name for p in (logged / "default" / "report").iterdir())
    # Weights are drawn only if the model was fitted with them.
    assert len(pictures) == found.images == 7 + ("gradient-aware weights" in shown)
    assert all(name.endswith(".png") for name in pictures)
    with pytest.raises(SystemExit) as caught:
        main(["report", run])
    assert caught.value.code == 2
    assert "--overwrite" in capsys.readouterr().err
    main(["report", run, "--overwrite", "--confidence", "0.9"])


def test_the_report_of_choices_without_a_model(logged):
    env = two_areas("B")
    behaviour = env.behaviour(jax.random.key(0))
    log = collect(env, behaviour, jax.random.key(1), n=60, steps=20)
    datasets.save("grid/walk-v0", log, behaviour, discount=0.99)
    run = logged / "choices"
    (logged / "gridtask.py").write_text(
        "from gamps.envs.two_areas import two_areas\ntask = two_areas('B').task()\n"
    )
    main(["train", "grid/walk-v0", "--task", "gridtask:task", "--recipe", "pgt",
          "--iterations", "2", "--out", str(run)])  # fmt: skip
    main(["report", str(run)])
    shown = " ".join(checked((run / "report.html").read_text(encoding="utf-8")).text)
    assert "has no model" in shown
    assert "most likely choice has changed" in shown


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_words_of_a_user_are_escaped():
    table = page.Table(["<b>"], [["<script>alert(1)</script>"]], ["fatal"])
    banner = page.Banner("worse", "<i>", "&")
    text = page.page("<title>", "a & b", [page.Section("<h1>", [table, banner, "<p>"])], {})
    found = checked(text)
    assert "<script>alert(1)</script>" in found.text
    assert "<title>" in found.text


def test_runs_beside_each_other(logged, capsys):
    runs = [trained(logged, name, "--recipe", name) for name in ("pgt", "reinforce")]
    runs.append(trained(logged, "seed", "--recipe", "pgt", "--seed", "1"))
    runs.append(trained(logged, "more", "--recipe", "pgt", "--seed", "2"))
    capsys.readouterr()
    out = logged / "compare"
    main(["compare", *runs, "--out", str(out)])
    shown = capsys.readouterr().out
    assert "on the same episodes" in shown
    assert "interquartile mean over seeds, recipe pgt" in shown
    found = json.loads((out / "compare.json").read_text())["results"]
    assert set(found["runs"]) == set(runs)
    (pair,) = found["pairs"]  # of four runs two share log and seed
    assert pair == f"{runs[1]} over {runs[0]}"
    difference = found["pairs"][pair]
    gains = [found["runs"][run]["improvement"]["estimate"] for run in runs[:2]]
    assert difference["estimate"] == pytest.approx(gains[1] - gains[0], abs=1e-6)
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    for wrong in ([runs[0]], [runs[0], runs[0]], runs):
        with pytest.raises(SystemExit) as caught:
            main(["compare", *wrong, "--out", str(out)])
        assert caught.value.code == 2


def test_a_run_judged_by_another_log(logged, capsys):
    run = trained(logged, "run", "--recipe", "pgt")
    more = collect(TwoTanks(), tanks.policy(), jax.random.key(8), n=80, steps=14)  # longer ones
    datasets.save("tanks/more-v0", more, tanks.policy(), discount=0.98)
    main(["report", run, "--log", "tanks/more-v0"])
    shown = " ".join(checked((logged / "run" / "report.html").read_text(encoding="utf-8")).text)
    assert "80 logged episodes of tanks/more-v0 that training never saw" in shown

    # The old log with six new episodes: those of the run do not count, held out or not.
    fresh = collect(TwoTanks(), tanks.policy(), jax.random.key(9), n=6, steps=12)
    grown = jax.tree.map(lambda a, b: np.concatenate([a, b]), LOG, fresh)
    datasets.save("tanks/grown-v0", grown, tanks.policy(), discount=0.98)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["evaluate", run, "--log", "tanks/grown-v0"])
    out = capsys.readouterr().out
    assert "24 episodes of the run's own log are left out" in out
    assert "On 6 held-out episodes" in " ".join(out.split())

    other = dataclasses.replace(more, actions=np.concatenate([more.actions] * 2, axis=-1))
    datasets.save("tanks/other-v0", other, None, discount=0.98)
    with pytest.raises(SystemExit) as caught:
        main(["evaluate", run, "--log", "tanks/other-v0"])
    assert caught.value.code == 2
    assert "actions [2]" in capsys.readouterr().err


def test_bands_where_every_imagined_episode_has_ended():
    mask = np.ones((4, 6), bool)
    seen = np.random.default_rng(0).normal(size=(4, 6, 2))
    imagined = np.repeat(seen[None], 20, axis=0)
    going = np.broadcast_to(np.arange(6) < 3, (20, 4, 6))
    assert page.png(pictures.bands(imagined, going, seen, mask)).startswith(b"\x89PNG")
