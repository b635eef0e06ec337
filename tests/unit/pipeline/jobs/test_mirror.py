from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.jobs.mirror import JOB, MirrorOptions
from ottla.pipeline.run.settings import new_settings
from ottla.pipeline.source.given_options import OptionError


def settings_of(**flags: Any) -> Settings:
    return new_settings(JOB, {"target": "west:9092", "topics": "clicks", **flags})


def test_a_mirror_has_one_query_of_its_name() -> None:
    (query,) = JOB.queries(settings_of(name="east-to-west"))
    assert query.name == "east-to-west"
    assert query.starting_offsets is not None
    assert query.upkeep is not None
    assert {"offset", "headers", "timestamp"} <= {*query.columns}


def test_defaults_mirror_all_groups_and_settings() -> None:
    assert MirrorOptions.parse(settings_of()) == MirrorOptions(
        name="mirror",
        target="west:9092",
        groups=".*",
        config_exclude=(),
        compression="zstd",
        sync_s=10.0,
    )
    options = MirrorOptions.parse(settings_of(config_exclude="retention.ms, flush.ms"))
    assert options.config_exclude == ("retention.ms", "flush.ms")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"target": ""}, "option target: is missing"),
        ({"target": "west"}, "option target: 'west' cannot be used; write host:port"),
        ({"name": "a b"}, "option name: 'a b' cannot be used"),
        ({"groups": "("}, r"option groups: '\(' cannot be used; it is not a regular expression"),
        ({"sync_seconds": "soon"}, "option sync_seconds: 'soon' cannot be used"),
        ({"compression": "rar"}, "option compression: 'rar' cannot be used"),
    ],
)
def test_errors_name_the_option(flags: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        JOB.queries(settings_of(**flags))


def test_a_batch_is_limited() -> None:
    assert settings_of().max_offsets_per_trigger == 500_000
    assert settings_of(max_offsets_per_trigger=7).max_offsets_per_trigger == 7


def test_topics_must_be_said() -> None:
    settings = new_settings(JOB, {"target": "west:9092"})
    with pytest.raises(OptionError, match="option topics: is missing"):
        JOB.queries(settings)


def test_it_is_described_without_spark_and_without_a_broker() -> None:
    program = (
        "import sys\n"
        "from ottla.pipeline.jobs.mirror import JOB\n"
        "from ottla.pipeline.run.settings import new_settings\n"
        "settings = new_settings(JOB, {'target': 'nowhere:1', 'topics': 'clicks'})\n"
        "print(len(JOB.queries(settings)), 'pyspark' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "1 False"
