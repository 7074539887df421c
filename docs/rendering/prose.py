"""Find numbers that look like results and were typed by hand.

A result number on a page is an expression. Other numbers in prose are settings. If a setting looks
like a result (a decimal, a percentage, ±, a time, a size, a multiple, a number of standard errors),
tests/test_claims.py must name it and say what it is.
"""

import re

# Patterns that are not prose, in the order in which they are removed.
NOT_PROSE = (
    re.compile(r"\{\{.*?\}\}", re.DOTALL),  # expressions
    re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.DOTALL | re.MULTILINE),  # fenced code
    re.compile(r"\$\$.*?\$\$", re.DOTALL),  # display maths
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"(`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)\1(?!`)", re.DOTALL),  # code spans
    re.compile(r"(?<![\\$])\$(?!\s)[^$\n]*(?:\n(?!\s*\n)[^$\n]*)*\$"),  # maths in a line
    re.compile(r"^ {0,3}#{1,6} .*$", re.MULTILINE),  # headings
    re.compile(r"(?<=\])\([^)\s]*\)|(?<=\])\[[^\]\n]*\]|<https?://[^>]*>|https?://\S+"),  # links
)
NUMBER = r"[-+−]?\d[\d,]*(?:\.\d+)?"
WORD = "two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty|a hundred|a thousand"
MORE = "as|faster|slower|more|less|fewer|larger|smaller|longer|shorter|better|worse|the"
UNIT = "ns|µs|ms|s|seconds?|min|minutes?|hours?|kB|MB|GB|TB|KiB|MiB|GiB|bytes|standard errors?"
RESULT = re.compile(
    "|".join(
        (
            rf"{NUMBER}\s*±\s*{NUMBER}|±\s*{NUMBER}",
            rf"{NUMBER}\s?(?:%|per\s?cent\b)",
            rf"{NUMBER}(?:e[-+]?\d+)?\s*(?:×|x|times)\s+(?:{MORE})\b",
            rf"\b(?:{WORD})\s+times\s+(?:{MORE})\b|\btwice\s+as\b",
            rf"\b{NUMBER}\s(?:{UNIT})\b(?!\.\w)",
            r"\b\d+\s+of\s+(?:the\s+)?\d+\b",
            r"(?<![\w./-])[-+−]?\d[\d,]*\.\d+(?:e[-+]?\d+)?(?![\w]|\.\d)|(?<!\w)\.\d+\b",
            r"(?<![\w.])\d+e[-+]?\d+\b",
        )
    )
)


def blanked(text: str) -> str:
    """Replace everything but prose by spaces; lines stay where they are."""
    for pattern in NOT_PROSE:
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def typed(text: str) -> list[tuple[int, str]]:
    """Return line and wording of every number that looks like a result.

    Examples:
      >>> typed("It is 3.2 times as fast as `1.5`, by {{ x:.2f }}, on Python 3.11.")
      [(1, '3.2 times as')]
    """
    prose = re.sub(r"\b(?:Python|JAX|Apache|version) \d+(?:\.\d+)*", "", blanked(text))
    return [
        (prose.count("\n", 0, found.start()) + 1, " ".join(found[0].split()))
        for found in RESULT.finditer(prose)
    ]
