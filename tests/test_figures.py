"""The diagrams are those that docs/figures.py draws, and the reference has no gap."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from layers import ROOMS, STAGES

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = runpy.run_path(str(DOCS / "figures.py"))
undocumented = runpy.run_path(str(DOCS / "public.py"))["undocumented"]


@pytest.mark.parametrize("name", ["flow", "layers"])
def test_the_committed_figure_is_the_one_drawn(name):
    committed = (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    assert committed == FIGURES[name](), "run python docs/figures.py"
    assert "\n\n" not in committed  # an empty line would end it within Markdown


def test_every_room_and_stage_is_in_the_house():
    drawn = re.findall(r"<title>gamps\.([\w.]+)</title>", FIGURES["layers"]())
    assert [name for name in drawn if "." not in name] == list(reversed(ROOMS))
    stages = [name.removeprefix("search.") for name in drawn if "." in name]
    for names in reversed(STAGES):
        assert {stages.pop(0) for _ in names} == names
    assert stages == []


@pytest.mark.parametrize("name", ["flow", "layers"])
def test_links_lead_to_the_reference(name):
    links = re.findall(r'<a href="api/(?:(\w+)/)?#(gamps\.[\w.]+)"', FIGURES[name]())
    assert links
    assert len(links) == FIGURES[name]().count("<a ")
    for page, module in links:
        text = (DOCS / "api" / f"{page or 'index'}.md").read_text(encoding="utf-8")
        assert f"::: {module}\n" in text


def test_what_has_no_link_is_not_in_the_reference():
    plain = set(re.findall(r"<g><title>gamps\.([\w.]+)</title>", FIGURES["layers"]()))
    assert plain == {"_version", "_utils", "report", "paper", "cli", "search.algorithm"}


def test_links_fit_the_page_they_are_on():
    class Page:
        url = "architecture/"

    link = '<a href="api/stages/#gamps.search.values">'
    assert FIGURES["on_page_content"](link, Page) == '<a href="../api/stages/#gamps.search.values">'
    Page.url = ""
    assert FIGURES["on_page_content"](link, Page) == link


def test_nothing_public_is_undocumented():
    assert undocumented() == []


SEEDED = {
    "__init__.py": '"""A."""\nfrom bare.inner import LIMIT, SAID\n__all__ = ["LIMIT", "SAID"]\n',
    "inner.py": '"""B."""\nLIMIT = 3\nSAID: int = 4\n"""Said."""\ndef _hidden(): pass\n',
    "plain.py": "class Part:\n    '''P.'''\n    def act(self): pass\n    def _own(self): pass\n",
    "_private.py": "def free(): pass\n",
    "cli.py": '"""C."""\nif True:\n    def command(): pass\n',
    "report.py": '"""D."""\n',
    "search/__init__.py": '"""E."""\nfrom bare.search.loop import run\n__all__ = ["run"]\n',
    "search/loop.py": '"""F."""\ndef run():\n    """R."""\n',
    "search/stage.py": '"""G."""\n',
    "search/shown.py": '"""H."""\n',
    "closed/__init__.py": '"""I."""\nif True:\n    from bare.search import gone, stage\n'
    '__all__ = ["gone", "stage"]\n',
    "closed/file.py": '"""J."""\n',
}


def test_what_is_not_documented_is_named(tmp_path):
    package, pages = tmp_path / "bare", tmp_path / "api"
    package.mkdir()
    pages.mkdir()
    for name, text in SEEDED.items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    shown = ["bare", "bare.closed", "bare.inner", "bare.search", "bare.search.shown"]
    (pages / "index.md").write_text("".join(f"::: {name}\n" for name in shown), encoding="utf-8")
    assert undocumented(package, pages) == [
        "bare.LIMIT",
        "bare.cli.command",
        "bare.closed.gone",
        "bare.plain",
        "bare.plain.Part.act",
        "bare.plain (on no page of api)",
        "bare.search.stage (on no page of api)",
    ]


def test_constructors_are_written_down():
    griffe = pytest.importorskip("griffe")
    extension = runpy.run_path(str(DOCS / "signatures.py"))["Signatures"]()
    package = griffe.load("gamps", extensions=griffe.Extensions(extension), search_paths=sys.path)
    shown = {p.name: str(p.default) for p in package["search.values.imagined.Imagined"].parameters}
    assert shown["rollouts"] == "10"
    assert shown["border"] == "None"
    shown = {p.name: p.default for p in package["search.fitting.drawn.SubsampledFit"].parameters}
    assert shown == {"self": None, "fit": None, "steps": None}
    # Fields of a base are its too; what can only be named comes last.
    names = [p.name for p in package["policies.gaussian.LinearGaussianPolicy"].parameters]
    assert names == ["self", "weights", "features", "log_std", "learn_std"]
    # A constructor of its own stays.
    assert [p.name for p in package["_utils.networks.MLP"].parameters] == ["self", "key", "sizes"]
    # A function is in its package, though a file has its name.
    for name in ("datasets.from_flat", "learner.model_classes", "runs.start"):
        assert package[name].is_function, name
    assert package["evaluation.Case"].parameters["evidence"]
