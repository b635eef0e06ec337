"""What a job is run with: flags before the file before defaults.

The file is TOML. Its keys are those of Settings and of the job's own options, beside one another,
and two tables: [source] for the data source and [spark] for Spark.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ottla.pipeline.jobs.job import Job, Settings

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_FOLDER = Path("ottla-pipeline")
"""Has one folder for each job, and the lake that they share."""

_TABLES = ("source", "spark")
_FLAGS = "--set"
_INTERVAL = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")


class SettingsError(ValueError):
    """Names the key and where it stands, and says what to do."""


def default_folder(job_name: str) -> Path:
    return DEFAULT_FOLDER / job_name


def read_file(path: Path) -> dict[str, Any]:
    """As it stands there: what the keys mean is checked by `new_settings`."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from error


def new_settings(
    job: Job,
    flags: Mapping[str, Any],
    file: Mapping[str, Any] | None = None,
    *,
    file_name: str = "the file",
) -> Settings:
    """Values as TOML has them, or as their text. Keys of tables have a dot in `flags`:
    source.minPartitions; Spark's own names begin with spark. anyway. Raises SettingsError."""
    given = {"source": {}, "spark": {}, **_defaults(job)}
    options = {option.name: option.default for option in job.options}
    for where, values in ((file_name, _flat(file or {}, file_name)), (_FLAGS, flags)):
        for key, value in values.items():
            table, dot, name = key.partition(".")
            if dot and table in _TABLES:
                given[table][key if table == "spark" else name] = _text(value)
            elif key in options:
                options[key] = _text(value)
            elif key in _PARSERS:
                given[key] = _parsed(key, value, where)
                _drop_other(given, key)
            else:
                raise SettingsError(f"{where}: {_unknown(key, [*_PARSERS, *options])}")
    return Settings(**given, options=options)


def _defaults(job: Job) -> dict[str, Any]:
    return {
        "bootstrap": DEFAULT_BOOTSTRAP,
        "folder": default_folder(job.name).absolute(),
        "lake": str((DEFAULT_FOLDER / "lake").absolute()),
        "topics": job.default_topics,
        "max_offsets_per_trigger": job.max_offsets_per_trigger,
    }


def _drop_other(given: dict[str, Any], key: str) -> None:
    """Topics by name or by pattern: the last one said counts, and the job's default least."""
    if key == "topic_pattern":
        given["topics"] = ()
    elif key == "topics":
        given["topic_pattern"] = None


def _flat(file: Mapping[str, Any], file_name: str) -> dict[str, Any]:
    if "topics" in file and "topic_pattern" in file:
        raise SettingsError(f"{file_name}: topics clashes with topic_pattern; remove one of them")
    found: dict[str, Any] = {}
    for key, value in file.items():
        if not isinstance(value, dict):
            found[key] = value
        elif key in _TABLES:
            found |= _dotted(value, "" if key == "spark" else f"{key}.", file_name)
        else:
            raise SettingsError(
                f"{file_name}: there is no table [{key}]; there are {', '.join(_TABLES)}, and all "
                "else stands above them"
            )
    return found


def _dotted(table: Mapping[str, Any], prefix: str, file_name: str) -> dict[str, Any]:
    """In TOML, spark.executor.memory without quotes is a table in a table."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _dotted(value, f"{prefix}{key}.", file_name)
        else:
            found[f"{prefix}{key}"] = value
    for key in found:
        if not prefix and not key.startswith("spark."):
            raise SettingsError(f"{file_name}: [spark] has {key}; its names begin with spark.")
    return found


def _parsed(key: str, value: Any, where: str) -> Any:
    try:
        return _PARSERS[key](value)
    except (ValueError, TypeError) as error:
        # A flag may be one of its own, such as --starting: the key says which.
        place = "" if where == _FLAGS else f"{where}: "
        raise SettingsError(f"{place}{key} cannot be {value!r}; {error}") from None


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, 1)
    if near:
        return f"{key} is not known; did you mean {near[0]}?"
    return f"{key} is not known; there are {', '.join(sorted(known))}, source.NAME and spark.NAME"


def _text(value: Any) -> str:
    """As the data source and Spark want them."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)


# -- values ------------------------------------------------------------------------------------


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("write it in quotes")
    return value


def _topics(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else _string(value).split(",")
    found = tuple(_string(name).strip() for name in names)
    if not all(found):
        raise ValueError("name at least one topic")
    return found


def _pattern(value: Any) -> str:
    try:
        return re.compile(_string(value)).pattern
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None


def _folder(value: Any) -> Path:
    return Path(_string(value)).expanduser().absolute()


def _lake(value: Any) -> str:
    text = _string(value)
    return text if "://" in text else str(_folder(text))


def _interval(value: Any) -> str:
    text = _string(value).strip()
    if not _INTERVAL.fullmatch(text):
        raise ValueError('write it as "3 minutes", "30 seconds" or "1 hour"')
    return text


def starting_text(value: Any) -> str:
    """earliest, latest, or milliseconds since 1970 (a time with a zone, too)."""
    text = str(value).strip()
    if text in ("earliest", "latest") or (text.isascii() and text.isdecimal()):
        return text
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "there are earliest, latest, milliseconds since 1970 and times such as "
            "2026-01-31T12:00:00Z"
        ) from None
    return str(round(moment.timestamp() * 1000))


def _positive_int(value: Any) -> int:
    if not str(value).isdecimal() or int(value) == 0:
        raise ValueError("it is a whole number above 0")
    return int(value)


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if isinstance(value, bool) or not 0 <= seconds < float("inf"):
        raise ValueError("it is a number of seconds")
    return seconds


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "bootstrap": _string,
    "folder": _folder,
    "lake": _lake,
    "topics": _topics,
    "topic_pattern": _pattern,
    "output_prefix": _string,
    "group_prefix": _string,
    "watermark": _interval,
    "starting": starting_text,
    "max_offsets_per_trigger": _positive_int,
    "trigger_s": _seconds,
    "master": _string,
}
