"""`ottla start`: one broker in this process, until SIGTERM or Ctrl-C.

Its options are a table. `parse` reads a command line by it when nothing is odd about it, and
that takes no time; anything else (--help, a mistake, completion) goes to the click command that
is built from the same table.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla import __version__
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.logs import LEVELS, set_up_logs

if TYPE_CHECKING:
    import click

    from ottla.broker import ReadyInfo
    from ottla.kernel.config.broker import BrokerConfig
    from ottla.kernel.config.properties import Properties

log = logging.getLogger(__name__)

DEFAULT_DATA_DIR = "ottla-data"
DEFAULT_BROKER_ID = "1"
_ID_NAMES = ("broker.id", "node.id")
_DIR_NAMES = ("log.dirs", "log.dir")


class _Option(NamedTuple):
    flag: str
    metavar: str | None
    """None: the option takes no value."""
    help: str
    is_multiple: bool = False
    choices: Sequence[str] = ()


_OPTIONS = (
    _Option("--data-dir", "DIR", f"Where records are kept. [default: ./{DEFAULT_DATA_DIR}]"),
    _Option("--listen", "HOST:PORT", "Port 0 picks a free one. [default: localhost:9092]"),
    _Option("--advertise", "HOST:PORT", "What clients are told to connect to, if not that."),
    _Option("--broker-id", "N", f"[default: {DEFAULT_BROKER_ID}]"),
    _Option("--config", "FILE", "Settings in the format of Kafka's server.properties."),
    _Option("--set", "KEY=VALUE", "A setting, stronger than the file's.", is_multiple=True),
    _Option(
        "--log-level", "LEVEL", "debug, info, warning or error. [default: warning]", False, LEVELS
    ),
    _Option("--log-json", None, "Log lines as JSON."),
)


class Settings(NamedTuple):
    """What the command line said."""

    data_dir: str | None = None
    listen: str | None = None
    advertise: str | None = None
    broker_id: str | None = None
    config: str | None = None
    set: tuple[str, ...] = ()
    log_level: str = "warning"
    log_json: bool = False


def parse(args: Sequence[str]) -> Settings | None:
    """None when click must have a look."""
    by_flag = {option.flag: option for option in _OPTIONS}
    found: dict[str, str | bool] = {}
    sets: list[str] = []
    remaining = iter(args)
    for arg in remaining:
        flag, equals, value = arg.partition("=")
        option = by_flag.get(flag)
        if option is None:
            return None
        name = flag[2:].replace("-", "_")
        if option.metavar is None:
            if equals:
                return None
            found[name] = True
            continue
        text = value if equals else next(remaining, None)
        if text is None or (option.choices and text not in option.choices):
            return None
        if option.is_multiple:
            sets.append(text)
        else:
            found[name] = text
    return Settings(**found, set=tuple(sets))  # type: ignore[arg-type]


def click_command() -> click.Command:
    import click

    params = [
        click.Option(
            [option.flag],
            metavar=option.metavar,
            help=option.help,
            is_flag=option.metavar is None,
            multiple=option.is_multiple,
            type=click.Choice(option.choices) if option.choices else None,
        )
        for option in _OPTIONS
    ]

    def start(**values: object) -> int:
        given = {name: value for name, value in values.items() if value is not None}
        return run(Settings(**given))  # type: ignore[arg-type]

    return click.Command("start", params=list(params), callback=start, help=_HELP)


_HELP = """Start a broker.

\b
ottla start
ottla start --data-dir /var/lib/ottla --listen 0.0.0.0:9092 --advertise my.host:9092
ottla start --config server.properties --set num.partitions=6

One line on standard output says when it is ready. SIGTERM or Ctrl-C stops it cleanly. Settings
have Kafka's own names and, except for a few, Kafka's defaults.
"""


def run(settings: Settings) -> int:
    # From here on, and not from the broker's own beginning: whoever waits for the ready line
    # waits for the imports too.
    started_s = time.monotonic()
    set_up_logs(settings.log_level, as_json=settings.log_json)
    config = broker_config(settings)
    without_effect = config.without_effect()
    if without_effect:
        log.info("settings without effect here: %s", ", ".join(without_effect))
    from ottla.broker import run as run_broker
    from ottla.coordination.store import StoreError
    from ottla.kernel.errors import KafkaError
    from ottla.storage.errors import BrokerStartRefused

    try:
        return run_broker(config, on_ready=lambda info: _say_ready(info, started_s))
    except (BrokerStartRefused, KafkaError, StoreError, OSError) as error:
        raise Failure(f"the broker could not start: {_in_words(error, config)}") from error


def broker_config(settings: Settings) -> BrokerConfig:
    """The file's settings, then those of --set, then the options; each stronger than the one
    before."""
    from ottla.kernel.config.broker import BrokerConfig
    from ottla.kernel.config.properties import Properties
    from ottla.kernel.errors import KafkaError

    file = _read_file(settings.config) if settings.config else Properties("")
    given: dict[str, str] = {**file, **_sets(settings.set)}
    _apply_options(given, settings)
    try:
        return BrokerConfig(given)
    except KafkaError as error:
        name = str(getattr(error, "name", ""))
        is_from_file = name in file and file[name] == given.get(name)
        place = f"{file.place_of(name)}: " if is_from_file else ""
        raise Failure(f"{place}{str(error).rstrip('.')}") from error


def _apply_options(given: dict[str, str], settings: Settings) -> None:
    if settings.data_dir is not None:
        _replace(given, _DIR_NAMES, settings.data_dir)
    elif not any(name in given for name in _DIR_NAMES):
        given["log.dirs"] = DEFAULT_DATA_DIR
    if settings.broker_id is not None:
        _replace(given, _ID_NAMES, settings.broker_id)
    elif not any(name in given for name in _ID_NAMES):
        given["broker.id"] = DEFAULT_BROKER_ID
    if settings.listen is not None:
        given["listeners"] = _listener(settings.listen)
    if settings.advertise is not None:
        given["advertised.listeners"] = _listener(settings.advertise)


def _replace(given: dict[str, str], names: Sequence[str], value: str) -> None:
    for name in names:
        given.pop(name, None)
    given[names[0]] = value


def _listener(address: str) -> str:
    return address if "://" in address else f"PLAINTEXT://{address}"


def _sets(texts: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(f"--set {text}: give it as KEY=VALUE", ExitCode.USAGE)
        found[name.strip()] = value.strip()
    return found


def _read_file(path: str) -> Properties:
    from ottla.kernel.config.properties import PropertiesError, parse_properties

    try:
        with open(path, "rb") as file:
            return parse_properties(file.read(), path)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except PropertiesError as error:
        raise Failure(str(error)) from error


def _in_words(error: Exception, config: BrokerConfig) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES) and not error.filename:
        where = ", ".join(str(listener).partition("://")[2] for listener in config.listeners)
        return f"cannot listen on {where}: {error.strerror}; --listen HOST:PORT picks another place"
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def _say_ready(info: ReadyInfo, started_s: float) -> None:
    seconds = time.monotonic() - started_s
    print(
        f"ottla {__version__} ready: broker {info.broker_id} on {', '.join(info.addresses)}, "
        f"data in {', '.join(info.data_dirs)} ({seconds:.2f} s)",
        flush=True,
    )
