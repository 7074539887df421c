"""The diagrams of the documentation: docs/figures/flow.svg and docs/figures/layers.svg.

Plain SVG that a snippet puts into a page, so that its colours follow the page's theme. A module is
a link to its place in the reference, from the root of the site; as a hook of MkDocs this file makes
the links fit their page.

Usage: python docs/figures.py
"""

import re
import runpy
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WIDTH = 480  # narrow, so that a telephone shows letters at three quarters of their size
LINE = "var(--md-primary-fg-color, #00796b)"
TEXT, LIGHT = "var(--md-default-fg-color, #222)", "var(--md-default-fg-color--light, #666)"
PAPER, SHADE = "var(--md-default-bg-color, #fff)", "var(--md-code-bg-color, #f5f5f5)"
BOLD, SMALL = 'font-size="16" font-weight="bold"', 'font-size="11.5"'
NAME = 'font-size="13" font-weight="bold"'
LETTER = 8.2  # about as wide as a letter of a chip
FLOOR = 28  # height of a room

STAGES = [  # what each does, and what it passes on
    ("importance", "how likely the policy makes logged actions", "log ρ, effective sample size"),
    ("weights", "which transitions the gradient needs", "ω"),
    ("fitting", "the likeliest model under these weights", "p̂"),
    ("values", "what an action is worth in the model", "Q̂, baseline b"),
    ("gradients", "where and how the sum is taken", "∇J"),
]

QUESTIONS = [  # a question, the answer that leads to the right, what to do then
    (("May you experiment", "freely?"), "yes", ("Use an online method:", "PPO or SAC")),
    (("Did the controller", "act with noise?"), "no", ("Add a little noise,", "and log again")),
    (("Was each action's", "density logged?"), "no", ("gamps fit-behaviour", "estimates it")),
    (
        ("Can you write the reward", "as a function?"),
        "no",
        ("Leave --task out: gamps", "fits a reward model"),
    ),
    (("Does the log fit", "into memory?"), "no", ("Add --stream to", "gamps train")),
    (
        ("May uncertified policies", "run in some episodes?"),
        "yes",
        ("gamps campaign", "--mode trials"),
    ),
    (
        ("May a certified policy", "run and be logged?"),
        "yes",
        ("gamps train, gamps evaluate;", "gamps next in each new round"),
    ),
]


def pages() -> dict[str, str]:
    """The page of the reference that each module is on."""
    return {
        name: f"api/{'' if path.stem == 'index' else f'{path.stem}/'}#{name}"
        for path in sorted((HERE / "api").glob("*.md"))
        for name in re.findall(r"^::: (gamps\.[\w.]+)$", path.read_text(encoding="utf-8"), re.M)
    }


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """The links of a figure, seen from the page that it is on."""
    return html.replace('<a href="api/', f'<a href="{"../" * page.url.count("/")}api/')


def rect(x: float, y: float, width: float, height: float, *, line: str = LINE) -> str:
    """A box; without a line, a shaded ground."""
    shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
    return f'<rect {shape} fill="{PAPER if line == LINE else SHADE}" stroke="{line}"/>'


def text(x: float, y: float, said: str, style: str = "", fill: str = TEXT) -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" {style}>{said}</text>'


def aside(x: float, y: float, said: str, style: str = "") -> str:
    """What is said beside a line."""
    return text(x, y, said, style, LIGHT)


def downward(x: float, y: float, said: str) -> str:
    """The same, from top to bottom."""
    return aside(x, y, said, f'transform="rotate(90 {x:g} {y:g})"')


def arrow(path: str) -> str:
    """A line with a head at its end."""
    return f'<path d="{path}" fill="none" stroke="{LINE}" marker-end="url(#to)"/>'


def down(x: float, y: float, length: float, said: str = "") -> str:
    """An arrow down, and what goes along it."""
    return arrow(f"M{x:g} {y:g}v{length:g}") + (aside(x + 12, y + 20, said) if said else "")


def linked(module: str, *parts: str) -> str:
    """What belongs to a module, as a link to it."""
    inside = f"<title>gamps.{module}</title>{''.join(parts)}"
    address = pages().get(f"gamps.{module}")
    return f'<a href="{address}">{inside}</a>' if address else f"<g>{inside}</g>"


def svg(name: str, title: str, height: float, parts: list[str]) -> str:
    """A whole figure; no empty line, which would end it within Markdown."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        'font-family="sans-serif" font-size="14" stroke-width="1.5" '
        f'style="display:block;width:100%;max-width:{WIDTH + 120}px;margin:1em auto">\n'
        f"<title>{title}</title>"
        '<marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker>'
    )
    whole = "\n".join([head, *parts, "</svg>", ""])
    return whole.replace('"to"', f'"{name}-to"').replace("#to", f"#{name}-to")  # each its own


def box(module: str, y: float, said: str, x: float = 40, width: float = 350) -> str:
    """A module with what it does."""
    name = text(x + 12, y + 19, module.rpartition(".")[-1], BOLD)
    return linked(module, rect(x, y, width, 44), name, text(x + 12, y + 36, said))


def flow() -> str:
    """What happens in one iteration, and what goes in and comes out."""
    parts = [
        box("trajectories", 6, "the log, [N, T]", x=20, width=140),
        box("tasks", 6, "reward, end, γ", x=170, width=140),
        box("search.recipes", 6, "which parts", x=320, width=140),
        *(down(x, 50, 26) for x in (90, 240, 390)),
        rect(20, 78, 440, 468, line="none"),
        linked("search", text(32, 98, "search", BOLD)),
        text(100, 98, "one iteration, one compiled program"),
    ]
    y = 110
    for module, said, handed in STAGES:
        parts += [box(f"search.{module}", y, said), down(215, y + 44, 30, handed)]
        y += 75
    parts += [
        rect(40, y, 350, 34),
        text(52, y + 22, "one step up the gradient, within trust regions"),
        arrow(f"M390 {y + 17}H426V132H392"),
        downward(434, 270, "the next policy"),
        down(126, y + 34, 50, "state, info"),
        down(354, y + 34, 50, "policy"),
        box("runs", y + 86, "saves it, resumes from it", x=20, width=212),
        box("evaluation", y + 86, "may it be deployed?", x=248, width=212),
    ]
    return svg("flow", "The flow of data through one iteration", y + 136, parts)


def choose() -> str:
    """Questions about a log, and what to do."""
    parts, y = [], 6.0
    for question, answer, then in QUESTIONS:
        parts += [rect(8, y, 196, 50), rect(262, y, 210, 50, line="none")]
        parts += [text(20, y + 21 + 18 * k, said) for k, said in enumerate(question)]
        parts += [text(274, y + 21 + 18 * k, said) for k, said in enumerate(then)]
        parts += [arrow(f"M204 {y + 25:g}H260"), aside(216, y + 18, answer)]
        other = "no" if answer == "yes" else "yes"
        parts += [down(106, y + 50, 28), aside(116, y + 70, other)]
        y += 80
    parts += [rect(8, y, 196, 32, line="none"), text(20, y + 21, "gamps train, gamps evaluate")]
    return svg("choose", "Questions about a log, and what to do", y + 38, parts)


def layers() -> str:
    """The house: every room on its floor, the ground at the bottom, and the stages in `search`."""
    listed = runpy.run_path(str(HERE.parent / "tests" / "layers.py"))
    parts, y = [], 6.0
    for name, said in reversed(listed["ROOMS"].items()):
        stages = list(reversed(listed["STAGES"])) if name == "search" else []
        height = FLOOR + 31 * len(stages) + (4 if stages else 0)
        label = [text(42, y + 18, name, NAME), text(138, y + 18, said, SMALL)]
        parts.append(linked(name, rect(34, y, 440, height), *label))
        for level, names in enumerate(stages):
            parts += row(sorted(names), y + FLOOR + 31 * level)
        y += height + 4
    parts += [arrow(f"M10 8V{y - 10:g}"), downward(16, 100, "imports go down")]
    return svg("layers", "The rooms of the package, from the ground up", y, parts)


def row(names: list[str], y: float) -> list[str]:
    """Stages side by side."""
    chips, x = [], 138.0
    for name in names:
        width = 12 + LETTER * len(name)
        label = text(x + width / 2, y + 17, name, 'text-anchor="middle"')
        chips.append(linked(f"search.{name}", rect(x, y, width, 25, line="none"), label))
        x += width + 6
    return chips


if __name__ == "__main__":
    for function in (flow, layers, choose):
        (HERE / "figures" / f"{function.__name__}.svg").write_text(function(), encoding="utf-8")
