"""The code blocks of a Markdown page, and what is refused because nobody would see it run."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

RUN, WRITTEN, SHOWN = ("python", "bash"), ("python", "bash", "toml"), "text"
FENCE = re.compile(r"^[ \t]*(`{3,}) *([\w-]*)(?: +title=\"([^\"]*)\")? *$")
MISSED = re.compile(r"```|--8<--|^[\s>*+.\d-]*~~~")  # quoted, included, or by another fence
COMMAND = re.compile(r"\s*(?:gamps|pip|python|\$) ")
INDENTED = re.compile(r"(?: {4}|\t)\s*(?:gamps|pip|python|\$) ")


class PageError(Exception):
    """A page that cannot be run, or whose code failed."""


class Block(NamedTuple):
    """Code of a page; its first line has the number `line`."""

    language: str
    title: str
    line: int
    code: str

    @property
    def executed(self) -> bool:
        """Whether it is run, and not written to a file or shown."""
        return self.language in RUN and not self.title


def blocks(page: Path) -> list[Block]:
    """All code blocks of a page, in their order; what cannot be one is refused."""
    found, lines = list[Block](), iter(enumerate(page.read_text("utf-8").splitlines(), start=1))
    for number, line in lines:
        fence = FENCE.match(line)
        if fence is None:
            if MISSED.search(line):
                fix = "Fence it by ``` and a language, with a title at most"
                raise PageError(f"{page}:{number}: code that is not seen: {line.strip()}. {fix}")
            if INDENTED.match(line):
                raise PageError(f"{page}:{number}: a command without a fence. Fence it as bash")
            continue
        code, closing = list[str](), re.compile(rf"\s*{fence[1]}`*\s*")
        for _, inside in lines:
            if closing.fullmatch(inside):
                break
            code.append(inside)
        else:
            inside = ""
        if not closing.fullmatch(inside) or any(FENCE.match(line) for line in code):
            raise PageError(f"{page}:{number}: a block without an end")
        text = textwrap.dedent("\n".join(code)) + "\n"
        found.append(_checked(page, Block(fence[2], fence[3] or "", number + 1, text)))
    return found


def _checked(page: Path, block: Block) -> Block:
    place, title = f"{page}:{block.line - 1}", Path(block.title)
    if block.language not in (*WRITTEN, SHOWN):
        known = ", ".join((*WRITTEN, SHOWN))
        raise PageError(f"{place}: language {block.language!r}. Take one of {known}")
    if title.is_absolute() or ".." in title.parts:
        raise PageError(f"{place}: {block.title} is out of the page's folder")
    if block.title and block.language == SHOWN:
        raise PageError(f"{place}: text is not written to a file. Leave the title out")
    if block.language not in (*RUN, SHOWN) and not block.title:
        raise PageError(f"{place}: {block.language} without a title. Say the file it belongs into")
    for i, line in enumerate(block.code.splitlines()):
        if block.language == SHOWN and COMMAND.match(line):
            raise PageError(f"{page}:{block.line + i}: a command in text. Fence it as bash")
    return block
