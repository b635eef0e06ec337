"""Flags before the file before defaults, and errors that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.jobs.job import Job, JobOption
from ottla.pipeline.run.settings import SettingsError, new_settings, read_file

JOB = Job(
    name="tiny",
    summary="",
    default_topics=("words",),
    queries=lambda settings: [],
    options=(JobOption("gap", "30 minutes", "between two sessions"),),
)


def file_with(folder: Path, text: str) -> dict[str, object]:
    path = folder / "tiny.toml"
    path.write_text(text)
    return read_file(path)


def test_defaults_are_the_jobs() -> None:
    settings = new_settings(JOB, {})
    assert settings.topics == ("words",)
    assert settings.options == {"gap": "30 minutes"}
    assert settings.folder == Path.cwd() / "ottla-pipeline" / "tiny"
    assert settings.lake == str(Path.cwd() / "ottla-pipeline" / "lake")


def test_a_flag_counts_more_than_the_file(tmp_path: Path) -> None:
    file = file_with(
        tmp_path,
        """
        bootstrap = "one:1"
        watermark = "5 minutes"
        topics = ["a", "b"]
        gap = "1 hour"
        trigger_s = 0.5
        starting = 2026-01-31T12:00:00Z
        lake = "s3://bucket/lake"
        [source]
        minPartitions = 8
        failOnDataLoss = false
        [spark]
        spark.executor.memory = "4g"
        "spark.sql.shuffle.partitions" = 4
        """,
    )
    flags = {"bootstrap": "two:2", "source.minPartitions": "9", "spark.executor.memory": "5g"}
    settings = new_settings(JOB, flags, file)
    assert (settings.bootstrap, settings.topics) == ("two:2", ("a", "b"))
    assert (settings.watermark, settings.trigger_s) == ("5 minutes", 0.5)
    assert settings.starting == "1769860800000"
    assert settings.lake == "s3://bucket/lake"
    assert settings.options == {"gap": "1 hour"}
    assert settings.source == {"minPartitions": "9", "failOnDataLoss": "false"}
    assert settings.spark == {"spark.executor.memory": "5g", "spark.sql.shuffle.partitions": "4"}


def test_topics_by_pattern_are_instead_of_those_by_name() -> None:
    settings = new_settings(JOB, {"topic_pattern": "w.*"}, {"topics": ["words"]})
    assert (settings.topics, settings.topic_pattern) == ((), "w.*")
    settings = new_settings(JOB, {"topics": "a, b"}, {"topic_pattern": "w.*"})
    assert (settings.topics, settings.topic_pattern) == (("a", "b"), None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('watermrak = "1 day"', "tiny.toml: watermrak is not known; did you mean watermark?"),
        ('gpa = "1 day"', "tiny.toml: gpa is not known; did you mean gap?"),
        ("nonsense = 1", "tiny.toml: nonsense is not known; there are bootstrap, "),
        ("[sorce]\na = 1", r"there is no table \[sorce\]; there are source, spark"),
        ("[spark]\nmemory = 1", r"\[spark\] has memory; its names begin with spark\."),
        ('watermark = "soon"', "watermark cannot be 'soon'; write it as \"3 minutes\""),
        ("bootstrap = 9092", "bootstrap cannot be 9092; write it in quotes"),
        ("trigger_s = true", "trigger_s cannot be True; it is a number of seconds"),
        ("max_offsets_per_trigger = -1", "it is a whole number above 0"),
        ('starting = "yesterday"', "starting cannot be 'yesterday'; there are earliest, latest"),
        ('topic_pattern = "("', "it is not a regular expression"),
        ('topics = ["a"]\ntopic_pattern = "b"', "topics clashes with topic_pattern"),
    ],
)
def test_an_error_names_key_and_remedy(tmp_path: Path, text: str, error: str) -> None:
    file = file_with(tmp_path, text)
    with pytest.raises(SettingsError, match=error):
        new_settings(JOB, {}, file, file_name="tiny.toml")


def test_a_flag_that_is_not_known_is_said_so() -> None:
    with pytest.raises(SettingsError, match="--set: master_url is not known"):
        new_settings(JOB, {"master_url": "local"})


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*: No such file"):
        read_file(tmp_path / "gone.toml")
    with pytest.raises(SettingsError, match=r"is no TOML: .*line 1"):
        file_with(tmp_path, "a b c")
