"""The file of rules, and what it says to whoever made a mistake in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.generate import metrics as generated
from ottla.pipeline.jobs.alarms import RULES, WINDOWS_S, Rule, RulesError, parse_rules, read_rules

GOOD = """
# Comments are as in TOML.
[[rule]]
name = "cpu-busy"
metric = "cpu_percent"
aggregate = "mean"
window = "1m"
above = 80

[[rule]]
name = "silent"
metric = "heartbeats"
aggregate = "count"
window = "1h"
below = 1.5
host = "web-*"
"""
BASE = {
    "name": '"r"',
    "metric": '"m"',
    "aggregate": '"p99"',
    "window": '"10s"',
    "above": "1",
}


def file_of(**changes: str | None) -> str:
    keys = {**BASE, **changes}
    return "[[rule]]\n" + "\n".join(f"{key} = {keys[key]}" for key in keys if keys[key] is not None)


def problem(text: str) -> str:
    with pytest.raises(RulesError) as caught:
        parse_rules(text, "rules.toml")
    return str(caught.value)


def test_a_file_of_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(GOOD)
    assert read_rules(path) == (
        Rule("cpu-busy", "cpu_percent", "mean", "1m", 80.0),
        Rule("silent", "heartbeats", "count", "1h", 1.5, is_above=False, host="web-*"),
    )
    assert parse_rules("", "rules.toml") == ()


def test_the_default_rules_are_those_that_the_truth_is_computed_by() -> None:
    assert [
        (rule.name, rule.metric, rule.aggregate, rule.threshold, WINDOWS_S[rule.window])
        for rule in RULES
    ] == [
        (rule.name, rule.metric, rule.aggregate, rule.above, rule.window_s)
        for rule in generated.RULES
    ]
    assert tuple(WINDOWS_S.values()) == generated.WINDOWS_S
    assert all(rule.is_above and rule.host == "*" for rule in RULES)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": None}, "rule number 1: name is missing"),
        ({"name": "7"}, "rule number 1: name is to be a text"),
        ({"name": '""'}, "rule : name is to be a text"),
        ({"metric": None}, "rule r: metric is missing"),
        ({"metric": "[]"}, "rule r: metric is to be a text"),
        (
            {"aggregate": '"p95"'},
            "rule r: aggregate is one of count, min, max, mean, p50, p99, not p95",
        ),
        ({"window": '"5m"'}, "rule r: window is one of 10s, 1m, 1h, not 5m"),
        ({"above": None}, "rule r: set above or below, one of them"),
        ({"below": "1"}, "rule r: set above or below, one of them"),
        ({"above": '"80"'}, "rule r: above is to be a number"),
        ({"above": "true"}, "rule r: above is to be a number"),
        ({"above": "nan"}, "rule r: above is to be a finite number"),
        ({"above": None, "below": "-inf"}, "rule r: below is to be a finite number"),
        ({"above": "1" + "0" * 400}, "rule r: above is to be a finite number"),
        ({"host": "1"}, "rule r: host is to be a text"),
        ({"hots": '"a"'}, "rule r: unknown: hots; did you mean host?"),
        (
            {"x": "1"},
            "rule r: unknown: x; there are name, metric, aggregate, window, above, below, host",
        ),
    ],
)
def test_mistakes_in_a_rule(changes: dict[str, str | None], text: str) -> None:
    assert problem(file_of(**changes)) == f"rules.toml:1: {text}"


def test_mistakes_in_a_file(tmp_path: Path) -> None:
    line = len(GOOD.splitlines()) + 2
    assert problem(f"{GOOD}\n{file_of(above=None)}") == (
        f"rules.toml:{line}: rule r: set above or below, one of them"
    )
    assert problem(f"{file_of()}\n{file_of()}") == (
        "rules.toml:7: rule r: there is another one of this name"
    )
    assert problem("[[rule]]\nname = ") == "rules.toml: Invalid value (at end of document)"
    assert "(at line 2, column 8)" in problem("[[rule]]\nname = x\n")
    assert problem("[[rules]]") == "rules.toml: unknown: rules; a file has tables [[rule]] only"
    assert problem("[rule]") == ("rules.toml: write [[rule]], in two brackets, before each rule")
    assert problem('rule = [{name = "r"}]') == "rules.toml: rule r: metric is missing"
    with pytest.raises(RulesError, match=r"gone\.toml: cannot be read: No such file"):
        read_rules(tmp_path / "gone.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(RulesError, match=r"bytes\.toml: no UTF-8: byte 0"):
        read_rules(tmp_path / "bytes.toml")


@given(st.text() | st.lists(st.sampled_from(GOOD.splitlines())).map("\n".join))
def test_any_text_is_rules_or_an_error(text: str) -> None:
    try:
        rules = parse_rules(text, "rules.toml")
    except RulesError:
        return
    assert all(isinstance(rule, Rule) for rule in rules)
