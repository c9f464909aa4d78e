"""From a chat server's answer to a rewritten script, or why there is none. Pure.

A rewriting is only ever embedded, so what matters is that it is still *this* job's work. Whether it parses isn't
asked: scripts mix shell, here-documents and Python, the reader has taken comments out (which may leave a block empty),
and the vector's distance to the known scripts, checked afterwards, refuses prose anyway. The dangerous answer is the
example given back: its vector would be the nearest of all, and the estimate another job's. So:

* an answer that was cut short, is empty or too long is refused;
* so is one whose lines all stand in the example or in the script: nothing was rewritten;
* numbers and quoted strings survive a change of style. Of those that set the script apart from the example, enough
  must be found again; where there are too few of them to tell, the two do nearly the same work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurmcast.script.reader import FILE, condensed

ECHO = 0.95
"""Share of lines taken over unchanged from which an answer passes as an echo."""
KEPT = 0.25
"""Share of them that must be found again: hand-made rewritings keep 0.27 to 0.9, other programs 0.2 at most
(benchmarks/align.py); what another style writes as 784 for 28 * 28, or leaves to a library, is gone."""
FEW_MARKS = 3

_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_BLOCK = re.compile(r"^(`{3,}|~{3,})[^\n`]*\n(.*?)(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_STRING = re.compile(r"""(["'])((?:(?!\1)[^\\\n]|\\.){2,}?)\1""")
_NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.])")


class Unusable(Exception):
    """The answer is no rewriting of the script; the message says why."""


def rewriting(answer: Mapping[str, Any], example: str, script: str, max_chars: int) -> str:
    """The rewritten script in the form in which the reader hands texts to the encoder. Raises :class:`Unusable`."""
    text = _as_read(code(_content(answer)))
    if not text:
        raise Unusable("it is empty")
    if len(text) > max_chars:
        raise Unusable(f"it has more than {max_chars} characters")
    lines = _lines(text)
    if sum(line in _lines(example) or line in _lines(script) for line in lines) >= ECHO * len(lines):
        raise Unusable("nothing was rewritten: it repeats the example or the script")
    own = marks(script) - marks(example)
    if len(own) >= FEW_MARKS and len(own & marks(text)) < KEPT * len(own):
        raise Unusable("it isn't the same work: most numbers and strings of the script are gone")
    return text


def code(content: str) -> str:
    """What stands in the fenced blocks of ``content``; all of it where there is none. Reasoning is passed over.

    Several blocks are several files. A block that isn't closed goes to the end.
    """
    content = _THOUGHT.sub("", content, count=1) if content.lstrip().startswith("<think>") else content
    blocks = [block[2] for block in _BLOCK.finditer(content)]
    return "\n".join(blocks) if blocks else content


def marks(text: str) -> frozenset[str | float]:
    """The quoted strings and numbers in ``text``: what a change of style leaves alone."""
    strings = {match[2] for match in _STRING.finditer(text)}
    return frozenset(strings | {float(number.replace("_", "")) for number in _NUMBER.findall(text)})


def _as_read(text: str) -> str:
    """Without comments and blank lines, as the reader leaves scripts."""
    return "\n".join(
        kept for line in text.split("\n") for kept in ([line] if line.startswith(FILE) else condensed(line))
    )


def _content(answer: Mapping[str, Any]) -> str:
    try:
        choice = answer["choices"][0]
        content, ended = choice["message"]["content"], choice.get("finish_reason")
    except (AttributeError, IndexError, KeyError, TypeError):
        raise Unusable("it has no choices[0].message.content") from None
    if not isinstance(content, str):
        raise Unusable("it has no text")
    if ended not in ("stop", None):
        raise Unusable(f"it was cut short ({ended})")
    return content.replace("\r\n", "\n").replace("\r", "\n")


def _lines(text: str) -> list[str]:
    """Lines without their margins; those of a bracket alone say nothing."""
    return [line.strip() for line in text.split("\n") if any(c.isalnum() for c in line)]
