"""Replace every `{{ expression }}` of a page's source by its value.

An expression is Python, evaluated in a namespace of functions. The text after its last colon
outside brackets and quotes is a format:
`{{ load("bounds")["results"]["ml"]["error"]["mean"]:.3g }}`.
"""

import re
from collections.abc import Callable
from typing import Any

from rendering.prose import blanked

FIELD = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


class RenderError(ValueError):
    """Raised if a source cannot be rendered; the message names file, line and expression."""


def parts(field: str) -> tuple[str, str]:
    """Split a field into its expression and its format.

    Examples:
      >>> parts(' x["a:b"][1:2] :.2f ')
      ('x["a:b"][1:2]', '.2f')
    """
    depth, quote, last = 0, "", -1
    for i, letter in enumerate(field):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == ":" and depth == 0:
            last = i
    if last < 0:
        return field.strip(), ""
    return field[:last].strip(), field[last + 1 :].strip()


def render(text: str, source: str, names: dict[str, Callable[..., Any]]) -> str:
    """Return the page of a source.

    Args:
      text: the source.
      source: its name, for error messages.
      names: the names that expressions may use.
    """

    def at(place: int) -> str:
        return f"{source}:{text.count(chr(10), 0, place) + 1}"

    def value(found: re.Match[str]) -> str:
        expression, spec = parts(found[1])
        try:
            # The sources are trusted: they are part of the repository, as this file is.
            return format(eval(" ".join(expression.split()), dict(names)), spec)  # noqa: S307
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise RenderError(f"{at(found.start())}: {{{{ {expression} }}}}: {said}") from error

    rest = FIELD.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for braces, where in (("{{", rest), ("}}", blanked(rest))):
        if braces in where:
            raise RenderError(f"{at(where.index(braces))}: {braces} without its other half")
    return FIELD.sub(value, text)
