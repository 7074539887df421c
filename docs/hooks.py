"""What MkDocs does beside building: fail where the reference has a gap, and set equations.

Equations become MathML when the site is built, so that no page needs a script or another host.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

sys.path.insert(0, str(Path(__file__).parent))
from public import undocumented

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
ELSEWHERE = re.compile(r'<(?:script|img|iframe|link)[^>]+(?:src|href)="(?:https?:)?//[^"]*"')


def on_pre_build(config: Any) -> None:
    """An undocumented public name fails the build."""
    del config
    if names := undocumented():
        raise PluginError("public, but not documented: " + ", ".join(names))


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Every equation as MathML."""
    return EQUATION.sub(lambda found: _equation(found, page.file.src_uri), html)


def _equation(found: re.Match[str], page: str) -> str:
    tag, source = found.group(1), html.unescape(found.group(2)).strip()
    try:
        made = convert(source, display="block" if tag == "div" else "inline")
    except Exception as error:  # it raises what it meets
        raise PluginError(f"{page}: the equation {source} cannot be set: {error!r}") from error
    return f'<{tag} class="equation">{made}</{tag}>'


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """A page that asks another host for something fails the build."""
    if found := ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri}: loads from elsewhere: {found.group()}")
    return output
