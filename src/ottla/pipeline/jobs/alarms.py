"""Rules for alarms, and the file they stand in. Plain Python, no Spark.

[[rule]]
name = "cpu-busy"
metric = "cpu_percent"
aggregate = "mean"
window = "1m"
above = 80
host = "web-*"      # where it is not for all hosts
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

AGGREGATES = ("count", "min", "max", "mean", "p50", "p99")
WINDOWS_S: Mapping[str, int] = {"10s": 10, "1m": 60, "1h": 3600}

_THRESHOLD_MAX = sys.float_info.max
_TABLE = re.compile(r"\s*\[\[\s*rule\s*\]\]")
_REQUIRED = ("name", "metric", "aggregate", "window")
_KEYS = (*_REQUIRED, "above", "below", "host")


@dataclass(frozen=True, slots=True)
class Rule:
    """Each window of a host whose aggregate is beyond the threshold is an alarm."""

    name: str
    metric: str
    aggregate: str
    window: str
    threshold: float
    is_above: bool = True
    """Else an alarm is what is below."""
    host: str = "*"
    """A pattern: * is any text, ? any character."""


RULES = (
    Rule("cpu-busy", "cpu_percent", "mean", "1m", 80.0),
    Rule("latency-peak", "latency_ms", "max", "10s", 2000.0),
)
"""Where no file is given."""


class RulesError(ValueError):
    """Names the file, the line and the rule."""


def read_rules(path: Path) -> tuple[Rule, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RulesError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RulesError(f"{path}: no UTF-8: byte {error.start}") from None
    return parse_rules(text, str(path))


def parse_rules(text: str, file: str) -> tuple[Rule, ...]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"{file}: {error}") from None
    for key in document:
        if key != "rule":
            raise RulesError(f"{file}: unknown: {key}; a file has tables [[rule]] only")
    tables = document.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise RulesError(f"{file}: write [[rule]], in two brackets, before each rule")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _TABLE.match(line)]
    rules: dict[str, Rule] = {}
    for index, table in enumerate(tables):
        # Tables may be written in other ways too, which have no line of their own.
        line = f":{lines[index]}" if len(lines) == len(tables) else ""
        name = table.get("name")
        where = f"{file}{line}: rule {name if isinstance(name, str) else f'number {index + 1}'}"
        try:
            rule = _rule_of(table)
            if rule.name in rules:
                raise ValueError("there is another one of this name")
        except ValueError as error:
            raise RulesError(f"{where}: {error}") from None
        rules[rule.name] = rule
    return tuple(rules.values())


def _rule_of(table: Mapping[str, Any]) -> Rule:
    for key in table:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KEYS)}"
            raise ValueError(f"unknown: {key}; {hint}")
    for key in (*_REQUIRED, "host"):
        value = table.get(key, "*" if key == "host" else None)
        if value is None:
            raise ValueError(f"{key} is missing")
        if not isinstance(value, str) or not value:
            raise ValueError(f"{key} is to be a text")
    if table["aggregate"] not in AGGREGATES:
        raise ValueError(f"aggregate is one of {', '.join(AGGREGATES)}, not {table['aggregate']}")
    if table["window"] not in WINDOWS_S:
        raise ValueError(f"window is one of {', '.join(WINDOWS_S)}, not {table['window']}")
    if ("above" in table) == ("below" in table):
        raise ValueError("set above or below, one of them")
    side = "above" if "above" in table else "below"
    threshold = table[side]
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise ValueError(f"{side} is to be a number")
    if not -_THRESHOLD_MAX <= threshold <= _THRESHOLD_MAX:
        raise ValueError(f"{side} is to be a finite number")
    return Rule(
        name=table["name"],
        metric=table["metric"],
        aggregate=table["aggregate"],
        window=table["window"],
        threshold=float(threshold),
        is_above=side == "above",
        host=table.get("host", "*"),
    )
