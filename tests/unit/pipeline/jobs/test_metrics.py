"""The metrics job as it is defined; tests/pipeline/test_metrics.py runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.jobs.alarms import RULES, Rule, RulesError
from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.jobs.metrics import JOB, like_of, rules_of


def settings_of(rules: str = "") -> Settings:
    return Settings(bootstrap="b:1", folder=Path("f"), lake="l", options={"rules": rules})


def test_what_the_job_writes() -> None:
    assert JOB.default_topics == ("metrics",)
    assert {query.name: (query.topics, query.tables) for query in JOB.queries(settings_of())} == {
        "windows": (("metrics-alarms",), ("metrics", "metrics_alarms")),
        "dead-letters": ((), ("dead_letters",)),
    }


def test_the_file_of_rules_is_an_option(tmp_path: Path) -> None:
    assert [option.name for option in JOB.options] == ["rules"]
    assert rules_of(settings_of(JOB.options[0].default)) == RULES
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nname="r"\nmetric="m"\naggregate="max"\nwindow="1h"\nbelow=1')
    assert rules_of(settings_of(str(path))) == (Rule("r", "m", "max", "1h", 1.0, is_above=False),)
    path.write_text("[[rule]]")
    with pytest.raises(RulesError, match=r"rules\.toml:1: rule number 1: name is missing"):
        JOB.queries(settings_of(str(path)))


def test_patterns_of_hosts_as_sql_has_them() -> None:
    assert like_of("*") == "%"
    assert like_of("web-?.*") == "web-_.%"
    assert like_of("a_b%c\\") == "a\\_b\\%c\\\\"
