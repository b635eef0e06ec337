"""Values of partition columns, as a Delta table names them in its log and Hive in its folders."""

from __future__ import annotations

import datetime
import string
from collections.abc import Mapping
from typing import TypeAlias

PartitionValue: TypeAlias = str | int | bool | datetime.date | None

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"

_PLAIN = frozenset(string.ascii_letters + string.digits + "-_.")
"""Of ASCII these stand for themselves. That is less than with Hive, which every reader of Hive's
folders understands, and deltalake loses files under some of the others, as `~`."""


def to_text(value: PartitionValue) -> str | None:
    """As the protocol of Delta says: an empty string means null, for strings as well."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value)


def folder(texts: Mapping[str, str | None]) -> str:
    """`day=2026-01-01/service=a%2Fb`, empty without partition columns."""
    return "/".join(
        f"{_escaped(name)}={_NULL_FOLDER if text is None else _escaped(text)}"
        for name, text in texts.items()
    )


def _escaped(text: str) -> str:
    return "".join(
        one if one in _PLAIN or not one.isascii() else f"%{ord(one):02X}" for one in text
    )
