"""From flags to settings, and what is said without Spark."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ottla.cli.errors import ExitCode, Failure
from ottla.cli.pipeline.options import Given, need_extra, settings_options
from ottla.pipeline.jobs.job import Job, Settings

JOB = Job(name="tiny", summary="", default_topics=("words",), queries=lambda settings: [])


def settings_from(*args: str) -> Settings:
    found: list[Settings] = []

    @click.command()
    @settings_options
    def command(given: Given) -> None:
        found.append(given.settings(JOB))

    result = CliRunner(env={"OTTLA_BOOTSTRAP": ""}).invoke(command, args, standalone_mode=False)
    if result.exception:
        raise result.exception
    return found[0]


def test_flags_before_file_before_defaults(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text('master = "local[7]"\nbootstrap = "file:1"\n')
    settings = settings_from("--config", str(file), "--bootstrap", "flag:1", "--set", "trigger_s=5")
    assert settings.bootstrap == "flag:1"
    assert settings.master == "local[7]"
    assert settings.trigger_s == 5
    assert settings.topics == ("words",)


def test_a_wrong_key_is_a_usage_error() -> None:
    with pytest.raises(
        Failure, match="--set: tigger_s is not known; did you mean trigger_s"
    ) as error:
        settings_from("--set", "tigger_s=5")
    assert error.value.exit_code == ExitCode.USAGE


def test_without_the_extra_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    need_extra()
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else find_spec(name)
    )
    with pytest.raises(Failure) as error:
        need_extra()
    assert str(error.value) == (
        "pipelines need Spark and more (pyspark): pip install 'ottla[pipeline]'"
    )
    assert error.value.exit_code == ExitCode.USAGE
