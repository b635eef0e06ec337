"""JSON for a person: on one line what fits there, else indented, and in colours on a terminal.

Nothing is lost on the way: numbers stay as they were written, and so does a name that is there
twice.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_INDENT = "  "


class _Literal(str):
    """A number as it was written; a float would round it."""


class Colours(NamedTuple):
    name: str
    string: str
    number: str
    word: str
    """true, false and null."""
    end: str


NO_COLOURS = Colours("", "", "", "", "")
TERMINAL_COLOURS = Colours("\x1b[34m", "\x1b[32m", "\x1b[36m", "\x1b[35m", "\x1b[0m")


def pretty_json(value: bytes, width: int, colours: Colours = NO_COLOURS) -> str | None:
    """None for what is no JSON object or array."""
    if value.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        tree = json.loads(
            value,
            parse_float=_Literal,
            parse_int=_Literal,
            parse_constant=_Literal,
            object_pairs_hook=tuple,
        )
        return _fitted(tree, colours, width, "\n")
    except (ValueError, RecursionError):
        return None


def _fitted(node: Any, colours: Colours, width: int, newline: str) -> str:
    """`width` is what is left of the line, and `newline` has the indentation of the node in it."""
    if not node or not isinstance(node, tuple | list) or len(_on_one_line(node)) <= width:
        return _on_one_line(node, colours)
    inner = newline + _INDENT
    line_width = width - len(_INDENT)
    if isinstance(node, list):
        items = [_fitted(one, colours, line_width, inner) for one in node]
        return f"[{','.join(inner + item for item in items)}{newline}]"
    pairs = [
        f"{_name(name, colours)}: "
        f"{_fitted(one, colours, line_width - len(_quoted(name)) - len(': '), inner)}"
        for name, one in node
    ]
    return f"{{{','.join(inner + pair for pair in pairs)}{newline}}}"


def _on_one_line(node: Any, colours: Colours = NO_COLOURS) -> str:
    if isinstance(node, tuple):
        pairs = (f"{_name(name, colours)}: {_on_one_line(one, colours)}" for name, one in node)
        return f"{{{', '.join(pairs)}}}"
    if isinstance(node, list):
        return f"[{', '.join(_on_one_line(one, colours) for one in node)}]"
    return _leaf(node, colours)


def _name(name: str, colours: Colours) -> str:
    return f"{colours.name}{_quoted(name)}{colours.end}"


def _leaf(node: Any, colours: Colours) -> str:
    if isinstance(node, _Literal):
        return f"{colours.number}{node}{colours.end}"
    if isinstance(node, str):
        return f"{colours.string}{_quoted(node)}{colours.end}"
    return f"{colours.word}{json.dumps(node)}{colours.end}"


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isprintable():
        return quoted
    # A terminal obeys control characters, also those beyond ASCII; and half of a surrogate pair
    # cannot be printed at all.
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in quoted)
