"""Numbers on the pages come from result files, and what is said of them in words holds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import engine as bench
from benchmarks import studies
from claims import CLAIMS, DOCS, ROOT, claimed, engine, prose, render, tables
from gamps import paper

# Numbers that look like results and are not: page, number, what it is. Anything else in prose that
# looks like one must be an expression over a result file.
SETTINGS: dict[str, dict[str, str]] = {
    "README.md.in": {"95%": "the confidence of verdicts"},
    "results.md.in": {
        "95%": "the confidence of every interval",
        "99%": "that of the limits of false deploys",
        "5%": "the error of verdicts",
        "0.5": "standard deviation of Swimmer's behaviour policy",
        "ten times as": "a longer log, which was not run",
    },
    "scale.md.in": {
        "1e-5": "tolerance of the gradient in tests/test_distributed.py",
        "1e-4": "tolerance of the parameters there",
        "4 bytes": "a float32",
        "12 bytes": "three int32",
    },
    "tutorials/deploy.md": {"0.95": "the default confidence of gamps evaluate"},
    "tutorials/own-log.md": {"0.6": "the level that the tutorial's plant has to keep"},
    "tutorials/paper.md": {"95%": "the confidence of every interval"},
    "tutorials/parts.md": dict.fromkeys(("0.12", "0.11", "0.10"), "constants of its plant"),
}
# Rendered from the repository's own files, or by mkdocstrings.
NOT_OURS = ("api/", "changelog.md", "contributing.md")


def page(name: str) -> str:
    """A page as text of single spaces, without the marks of its lists."""
    path = ROOT / name if name == "README.md" else DOCS / name
    return " ".join(path.read_text(encoding="utf-8").split())


def texts() -> list[Path]:
    """Every source, and every page that has none."""
    sources = sorted(DOCS.rglob("*.md.in"))
    written = set(render.sources().values())
    plain = [path for path in sorted(DOCS.rglob("*.md")) if path not in written]
    return sources + [p for p in plain if not str(p.relative_to(DOCS)).startswith(NOT_OURS)]


def named(path: Path) -> str:
    return str(path.relative_to(DOCS))


def test_every_page_equals_its_rendering():
    for path, text in render.pages().items():
        assert path.exists(), f"{path} is missing: python docs/render.py"
        assert path.read_text(encoding="utf-8") == text, f"{path} is old: python docs/render.py"


@pytest.mark.parametrize("path", texts(), ids=named)
def test_no_result_is_typed_by_hand(path):
    settings = SETTINGS.get(named(path), {})
    found = prose.typed(path.read_text(encoding="utf-8"))
    by_hand = [f"line {line}: {wording}" for line, wording in found if wording not in settings]
    assert not by_hand, "write an expression over a result file, or name the setting in SETTINGS"
    assert not set(settings) - {wording for _, wording in found}, "no longer on the page"


def test_settings_are_of_pages_that_exist():
    assert set(SETTINGS) <= {named(path) for path in texts()}


@pytest.mark.parametrize(
    "wording",
    [
        "It ends at 28.4.",
        "It is better by 3 standard errors.",
        "It covers 94% of the time.",
        "A return of 12 ± 3.",
        "It is 4 times as fast.",
        "It is three times faster.",
        "It took 85 s of the processor.",
        "It is right in 7 of the 20 logs.",
        "- **bold -3.5**, in a list",
        "| a table | .25 |",
        "!!! note\n    An error of 1e-3.",
    ],
)
def test_a_typed_number_is_found(wording):
    assert prose.typed(wording)
    assert prose.typed(f"# Page\n\nSome text, `code 1.5`.\n\n{wording}\n\n```\n2.5\n```\n")


@pytest.mark.parametrize(
    "wording",
    [
        "{{ spread(x):.2f }} of `0.5`",
        "```python\nlr = 0.08\n```",
        "## Version 1.2",
        "[text](results/a-0.5.png) of d3rlpy 2.8.1 on Python 3.11",
        "20 runs of 100 × 200 steps, seeds 0, 1, …, N = 50, a 2×32 network",
        "$\\gamma = 0.99$ and\n\n$$\n0.5 x\n$$\n",
    ],
)
def test_settings_code_and_equations_are_not(wording):
    assert prose.typed(wording) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("one\n{{ nobody() }}", r"x.md.in:2: {{ nobody\(\) }}: NameError"),
        ('{{ load("nothing") }}', "FileNotFoundError"),
        ("one\ntwo {{ 1 + 1", r"x.md.in:2: {{ without"),
        ("}} one", r"x.md.in:1: }} without"),
    ],
)
def test_a_source_that_cannot_be_rendered_says_where(source, said):
    with pytest.raises(engine.RenderError, match=said):
        engine.render(source, "x.md.in", render.names())


def test_expressions_have_formats():
    source, page = '{{ "a:b"[1:] }} {{ 1 / 4:.1f }} $a_{b_{1}}$', ":b 0.2 $a_{b_{1}}$"
    assert engine.render(source, "x", {}) == page


def test_every_result_file_is_on_a_page():
    render.pages()
    files = {path.stem for path in tables.RESULTS.glob("*.json")}
    assert files <= tables.ASKED, "result files that no page shows"


@pytest.mark.parametrize("path", [ROOT / "README.md", *DOCS.rglob("*.md")], ids=lambda p: p.name)
def test_files_and_commands_that_a_page_names_exist(path):
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"(?:docs/|\((?:\.\./)*)results/([\w.-]+\.(?:png|json|txt))", text):
        assert (tables.RESULTS / name).exists(), name
    assert set(re.findall(r"gamps\s+reproduce\s+([a-z]\w*)", text)) <= set(paper.__all__)
    for package in (bench, studies):
        command = rf"python\s+-m\s+{re.escape(package.__name__)}\s+([a-z][\w-]*)"
        names = {name.replace("_", "-") for name in package.__all__}
        assert set(re.findall(command, text)) <= names
    assert not re.search(r"gamps\s+bench\b", text), "it is python -m benchmarks.engine"
    for script in re.findall(r"(?:benchmarks|docs|tests)/[\w/]+\.py", text):
        assert (ROOT / script).exists(), script


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
# benchmarks alone names no command, and benchmarks.process runs in an environment of its own.
NAMED = {
    name.rstrip(".")
    for path in PAGES
    for name in re.findall(r"python\s+-m\s+(benchmarks\.[\w.]+)", path.read_text(encoding="utf-8"))
} - {"benchmarks", "benchmarks.process"}


@pytest.mark.parametrize(
    "module",
    # Each takes seconds to import; one is in the standing tier.
    [
        pytest.param(m, marks=[] if m.endswith("peers.run") else pytest.mark.full)
        for m in sorted(NAMED)
    ],
)
def test_a_command_that_a_page_names_starts(module):
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert "usage" in done.stdout.lower() or "python -m" in done.stdout


@pytest.mark.parametrize("claim", claimed.claims(), ids=lambda claim: claim.file)
def test_every_row_of_the_claims_page_holds(claim):
    assert claim.holds(), claim.what
    assert (DOCS / "results" / claim.file).exists()
    assert claim.what in page("claims.md")
    program = claim.command.split()[1:3]  # "-m MODULE", or a script
    module = program[1].replace(".", "/") if program[0] == "-m" else program[0].removesuffix(".py")
    assert (ROOT / f"{module}.py").exists() or (ROOT / module).is_dir(), claim.command


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.phrase[:60])
def test_what_is_said_in_words_holds(claim):
    assert claim.phrase in page(claim.page), "the sentence is gone: drop its claim"
    assert claim.holds(), f"{claim.page} says: {claim.phrase}"
