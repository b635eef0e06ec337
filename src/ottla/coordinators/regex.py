"""Regular expressions of clients, by RE2: Python's own can be made to hang."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ottla.kernel.errors import ErrorCode, KafkaError

_MAX_MEMORY_BYTES = 1024 * 1024
"""Of one expression. What does not fit is refused: an expression comes from a client."""


def check_regex(regex: str) -> None:
    """Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    _compile(regex)


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Those that match from beginning to end."""
    pattern = _compile(regex)
    return frozenset(name for name in names if pattern.fullmatch(name) is not None)


@lru_cache(maxsize=256)
def _compile(regex: str) -> Any:
    # Most brokers never see an expression, and this import takes 10 ms.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.max_mem = _MAX_MEMORY_BYTES
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:100]}` is not a valid regular expression: "
            f"{str(reason)[:200]}",
        ) from None
