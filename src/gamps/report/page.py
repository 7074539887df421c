"""One self-contained HTML file: no script, no request, readable on screen and on paper."""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

STYLE = """
:root { color-scheme: light; --line: #d5d9de; --soft: #f4f6f8; --ink: #1c2733; --grey: #5b6875; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1.2rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; }
.verdict { padding: .8rem 1rem; border-left: .5rem solid; background: var(--soft); }
.verdict strong { font-size: 1.3rem; }
.deploy { border-color: #2a9d5c; } .unsure { border-color: #d99000; }
.worse { border-color: #c1121f; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { min-width: 4.5rem; }
td:last-child { overflow-wrap: anywhere; min-width: 8rem; }
th { color: var(--grey); font-weight: 600; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.fatal td:first-child { color: #c1121f; } tr.warning td:first-child { color: #a86c00; }
figure { margin: .8rem 0; } img { max-width: 100%; height: auto; display: block; }
figcaption { color: var(--grey); font-size: .9rem; max-width: 46rem; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; }
  figure, table, .verdict { break-inside: avoid; } h2 { break-after: avoid; } }
"""


class Table(NamedTuple):
    """Rows under a header; each row may have a CSS class.

    Attributes:
      header: titles of the columns.
      rows: cells as text.
      looks: one class per row, or empty.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    looks: Sequence[str] = ()


class Picture(NamedTuple):
    """A figure with its caption.

    Attributes:
      name: name of its file.
      figure: a Matplotlib figure.
      caption: what it shows.
    """

    name: str
    figure: Any
    caption: str


class Banner(NamedTuple):
    """The most important message of the page.

    Attributes:
      look: deploy, unsure or worse.
      word: the verdict, in large letters.
      text: the text below it.
    """

    look: str
    word: str
    text: str


class Section(NamedTuple):
    """A heading and its content: paragraphs, tables, pictures, a banner."""

    title: str
    parts: Sequence[str | Table | Picture | Banner]


def png(figure: Any) -> bytes:
    """Return a figure as PNG, to embed in the page and to write next to it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    return buffer.getvalue()


def page(title: str, subtitle: str, sections: Iterable[Section], images: dict[str, bytes]) -> str:
    """Return the whole file; `images` holds the PNG of every picture, by name."""
    body = "\n".join(_section(section, images) for section in sections)
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{html.escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{html.escape(title)}</h1>
<p>{html.escape(subtitle)}</p>
</header>
<main>
{body}
</main>
</body>
</html>
"""


def _section(section: Section, images: dict[str, bytes]) -> str:
    parts = "\n".join(_part(part, images) for part in section.parts)
    return f"<section>\n<h2>{html.escape(section.title)}</h2>\n{parts}\n</section>"


def _part(part: str | Table | Picture | Banner, images: dict[str, bytes]) -> str:
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>"
    if isinstance(part, Banner):
        word, text = html.escape(part.word), html.escape(part.text)
        return f'<p class="verdict {part.look}"><strong>{word}</strong><br>{text}</p>'
    if isinstance(part, Picture):
        data = base64.b64encode(images[part.name]).decode()
        caption = html.escape(part.caption)
        return (
            f'<figure><img src="data:image/png;base64,{data}" alt="{caption}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    looks = list(part.looks) or [""] * len(part.rows)
    header = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in part.header)
    rows = "\n".join(
        f'<tr class="{look or "plain"}">{"".join(map(_cell, row))}</tr>'
        for row, look in zip(part.rows, looks, strict=True)
    )
    return (
        f'<div class="wide"><table>\n<thead><tr>{header}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _cell(text: str) -> str:
    look = ' class="number"' if text[:1] in "-+0123456789" and len(text) < 24 and text else ""
    return f"<td{look}>{html.escape(text)}</td>"
