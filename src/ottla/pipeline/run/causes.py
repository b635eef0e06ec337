"""Why a query failed, in one line: what Spark says of it is 60 lines, and the cause is in the
middle of them."""

from __future__ import annotations

import re

_TRACEBACK = "Traceback (most recent call last):"
_LENGTH_MAX = 600
_END = re.compile(r"\s*(?:\n\tat |\n\s*\n|SQLSTATE: |\nJVM stacktrace:|\n=== Streaming Query ===)")
_CHAINED = re.compile(
    r"\s*(?:The above exception was the direct cause|During handling of the above exception)"
)
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$", re.DOTALL)
_STREAM_FAILED = re.compile(r"^\[STREAM_FAILED\] .*?terminated with exception: ", re.DOTALL)
_OF_SPARK = ("Py4JJavaError", "Py4JException", "PySparkException", "PythonException")
"""They wrap another one, which says more."""
_WAITED = "Exception thrown in awaitResult"


def cause_of(error: BaseException) -> str:
    """What was raised first in Python, or else the first that Spark itself says."""
    text = str(error)
    if _TRACEBACK in text:
        return _short(_last_raised(text))
    name = type(error).__name__
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        said = _short(_until_end(_STREAM_FAILED.sub("", text)))
        # There is no other way to what Spark has caught: it is not raised from it.
        within: BaseException | None = getattr(error, "_cause", None)
        if within is not None and said.startswith(_WAITED):
            return cause_of(within)
        return said or f"{name}, without a reason"
    return _short(f"{name}: {text}" if text else name)


def _last_raised(text: str) -> str:
    """Of the first traceback in the text and those that are chained to it."""
    rest = text.partition(_TRACEBACK)[2]
    while True:
        lines = rest.splitlines(keepends=True)
        # Frames are indented; the line after them names what was raised.
        first = next(
            (number for number, line in enumerate(lines) if line.strip() and line[0] != " "), None
        )
        if first is None:
            return _until_end(rest.strip())
        raised = "".join(lines[first:])
        said = _until_end(raised)
        rest = raised[len(said) :]
        is_chained = _CHAINED.match(rest) is not None
        is_wrapped = said.partition(":")[0].rpartition(".")[2] in _OF_SPARK
        if _TRACEBACK not in rest or not (is_chained or is_wrapped):
            return _named(said)
        rest = rest.partition(_TRACEBACK)[2]


def _until_end(text: str) -> str:
    end = _END.search(text)
    return text[: end.start()] if end else text


def _named(said: str) -> str:
    """Without the module, which is for programmers."""
    found = _RAISED.match(said.strip())
    if found is None:
        return said
    name = found["type"].rpartition(".")[2]
    return f"{name}: {found['text']}" if found["text"] else name


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LENGTH_MAX else f"{line[:_LENGTH_MAX]}..."
