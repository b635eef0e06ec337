"""What the commands about pipelines take, and how they become the settings of a job."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.command_line import command_line
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.options import pairs
from ottla.pipeline.jobs.registry import find_job, summaries

if TYPE_CHECKING:
    from ottla.pipeline.jobs.job import Job, Query, Settings

EXTRA = ("pyspark", "pyarrow", "numpy", "pandas", "deltalake")

job_argument = click.argument("name", metavar="NAME", type=click.Choice(list(summaries())))


def need_extra() -> None:
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(
            f"pipelines need Spark and more ({', '.join(missing)}): pip install 'ottla[pipeline]'",
            ExitCode.USAGE,
        )


class Given(NamedTuple):
    """The flags that become settings."""

    flags: dict[str, Any]
    config: Path | None

    def settings(self, job: Job) -> Settings:
        from ottla.pipeline.run.settings import SettingsError, new_settings, read_file

        try:
            if self.config is None:
                return new_settings(job, self.flags)
            file = read_file(self.config)
            return new_settings(job, self.flags, file, file_name=str(self.config))
        except SettingsError as error:
            describe = command_line(f"pipeline describe {job.name}")
            raise Failure(f"{error} (see `{describe}`)", ExitCode.USAGE) from error


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags, and hands the command `given`. Where none is given the file counts, then the
    default."""

    @functools.wraps(command)
    def with_given(
        *args: Any, config: Path | None, settings: tuple[str, ...], **kwargs: Any
    ) -> Any:
        named = {name: kwargs.pop(name) for name in _NAMED}
        flags = {name: value for name, value in named.items() if value is not None}
        return command(*args, given=Given(pairs(settings, "--set") | flags, config), **kwargs)

    for option in reversed(_OPTIONS):
        with_given = option(with_given)
    return with_given


_NAMED = ("bootstrap", "topics", "folder", "lake", "master")
_OPTIONS = (
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Settings in TOML; flags win over it. See docs/pipelines/README.md.",
    ),
    click.option(
        "--bootstrap",
        envvar="OTTLA_BOOTSTRAP",
        metavar="HOST:PORT",
        help="Brokers to connect to, with commas. OTTLA_BOOTSTRAP sets it too. "
        "[default: localhost:9092]",
    ),
    click.option(
        "--topics", metavar="NAMES", help="Topics to read, with commas. [default: the pipeline's]"
    ),
    click.option(
        "--folder",
        metavar="DIR",
        help="Where its checkpoints, progress and log are. [default: ./ottla-pipeline/NAME]",
    ),
    click.option(
        "--lake",
        metavar="DIR",
        help="Where its tables are, a folder or URI. [default: ./ottla-pipeline/lake]",
    ),
    click.option(
        "--master",
        metavar="URL",
        help="Spark's master: local[N], spark://HOST:PORT; k8s://, yarn and sc:// are passed on, "
        "untested. [default: local[*]]",
    ),
    click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        help="Any key of the file: an option of the job, source.NAME, spark.NAME. May be repeated.",
    ),
)


def known_job(name: str) -> Job:
    need_extra()
    return find_job(name)


def checked_queries(job: Job, settings: Settings) -> list[Query]:
    """All that can be wrong is told here, since Spark takes some seconds to start. Raises
    ValueError."""
    queries = list(job.queries(settings))
    if settings.source:
        need_extra()
        from ottla.pipeline.source.read_options import ReadOptions

        topics = {} if _names_topics(settings.source) else {"subscribe": "any"}
        ReadOptions.parse(
            {"kafka.bootstrap.servers": settings.bootstrap, **topics, **settings.source},
            is_stream=True,
        )
    return queries


def _names_topics(source: Mapping[str, str]) -> bool:
    return any(name.lower() in ("subscribe", "subscribepattern", "assign") for name in source)
