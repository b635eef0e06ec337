"""`ottla start`: one broker in this process, until SIGTERM or Ctrl-C; or, with --brokers, several
in processes of their own (`cli/supervisor/`).

Its options are a table. `parse` reads a command line by it when nothing is odd about it, and
that takes no time; anything else (--help, a mistake, completion) goes to the click command that
is built from the same table.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla import __version__
from ottla.cli.command_line import command_line
from ottla.cli.early_exit import CLEAR_LINE
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.logs import LEVELS, log_state_changes, set_up_logs
from ottla.cli.start_times import StartTimes

if TYPE_CHECKING:
    import click

    from ottla.broker_process import ReadyInfo
    from ottla.config.broker import BrokerConfig
    from ottla.config.properties import Properties
    from ottla.kernel.errors import KafkaError

log = logging.getLogger(__name__)

DEFAULT_DATA_DIR = "ottla-data"
DEFAULT_BROKER_ID = "1"
DEFAULT_ADDRESS = "localhost:9092"
CLUSTER_FILE = "cluster.db"
"""The store of several brokers, beside their data dirs. Not of the name that a single broker's has:
that one would take the cluster's topics for its own."""
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
    _Option(
        "--data-dir",
        "DIR",
        f"Where topics and records are stored; created if missing. [default: ./{DEFAULT_DATA_DIR}]",
    ),
    _Option(
        "--listen",
        "HOST:PORT",
        "Where clients connect. 0.0.0.0:9092 accepts other machines too; port 0 picks a free port. "
        "[default: localhost:9092]",
    ),
    _Option(
        "--advertise",
        "HOST:PORT",
        "The address that clients are told to use, if it is not that of --listen.",
    ),
    _Option(
        "--broker-id",
        "N",
        f"Each broker of a cluster has another one. [default: {DEFAULT_BROKER_ID}]",
    ),
    _Option(
        "--zookeeper",
        "HOST:PORT,...[/PATH]",
        "The ZooKeeper servers where the brokers of a cluster meet.",
    ),
    _Option(
        "--brokers",
        "N",
        "A cluster of N brokers on this machine: ids from 1, ports from that of --listen on, data "
        "in DIR/broker-1 and so on.",
    ),
    _Option("--restart", None, "With --brokers: start a broker that has died again."),
    _Option("--config", "FILE", "Settings, in a file like Kafka's server.properties."),
    _Option(
        "--set", "KEY=VALUE", "One setting; wins over the file. May be repeated.", is_multiple=True
    ),
    _Option(
        "--log-level",
        "LEVEL",
        "debug, info, warning or error, to standard error. [default: warning]",
        False,
        LEVELS,
    ),
    _Option("--log-json", None, "Log lines as JSON."),
)

_FLAGS = {
    "listeners": "--listen",
    "advertised.listeners": "--advertise",
    "broker.id": "--broker-id",
    "log.dirs": "--data-dir",
    "zookeeper.connect": "--zookeeper",
}
"""Which option sets it."""


class Settings(NamedTuple):
    """What the command line said."""

    data_dir: str | None = None
    listen: str | None = None
    advertise: str | None = None
    broker_id: str | None = None
    zookeeper: str | None = None
    brokers: str | None = None
    restart: bool = False
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
ottla start --brokers 3 --restart
ottla start --broker-id 1 --zookeeper zk1:2181,zk2:2181,zk3:2181 --listen 10.0.0.1:9092

Prints one line on standard output when it is ready. Ctrl-C or SIGTERM stops it cleanly, a second
one at once; either way the next start has the same data. Settings have Kafka's names and, except
for a few, Kafka's defaults.
"""


def run(settings: Settings) -> int:
    # From here on, and not from the broker's own beginning: whoever waits for the ready line
    # waits for the imports too.
    times = StartTimes()
    if settings.brokers is not None:
        from ottla.cli.supervisor.supervisor import run_brokers

        return run_brokers(settings, times.began_s)
    if settings.restart:
        raise Failure("--restart goes with --brokers N", ExitCode.USAGE)
    set_up_logs(settings.log_level, as_json=settings.log_json)
    config = broker_config(settings)
    _check_data_dir(config, settings)
    _log_state_changes(config.ottla_state_change_log)
    without_effect = config.without_effect()
    if without_effect:
        log.info("settings without effect here: %s", ", ".join(without_effect))
    times.passed("settings")
    # What is imported and loaded now is there to stay: until the broker is ready there is nothing
    # to collect.
    gc.disable()
    from ottla.broker_process import run as run_broker
    from ottla.coordination.store import StoreError
    from ottla.kernel.errors import KafkaError
    from ottla.storage.errors import BrokerStartRefused

    times.passed("modules")

    def ready(info: ReadyInfo) -> None:
        _say_ready(info, times.began_s)
        log.info("the start took: %s", times)

    try:
        exit_code = run_broker(config, on_ready=ready, passed=times.passed)
    except (BrokerStartRefused, KafkaError, StoreError, OSError) as error:
        from ottla.cli.start_problems import in_words

        raise Failure(f"the broker could not start: {in_words(error, config)}") from error
    finally:
        gc.enable()
    if exit_code == ExitCode.OK and sys.stderr.isatty():
        _say_stopped(config)
    return exit_code


def _log_state_changes(path: str | None) -> None:
    if path is None:
        return
    try:
        log_state_changes(path)
    except OSError as error:
        raise Failure(f"ottla.state.change.log: cannot write {path}: {error.strerror}") from error


def _check_data_dir(config: BrokerConfig, settings: Settings) -> None:
    """Of several the broker does without those that it cannot use."""
    path, *others = config.log_dirs
    if os.path.exists(os.path.join(path, CLUSTER_FILE)):
        raise Failure(
            f"--data-dir {path}: there are the data of several brokers; start them with "
            "--brokers N, or give another folder"
        )
    if others or (os.access(path, os.W_OK | os.X_OK) and os.path.isdir(path)):
        return
    from ottla.cli.start_problems import data_dir_problem

    is_given = settings.data_dir is not None or path == DEFAULT_DATA_DIR
    problem = data_dir_problem(path, "--data-dir" if is_given else "log.dirs")
    if problem is not None:
        raise Failure(problem)


def broker_config(settings: Settings) -> BrokerConfig:
    """The file's settings, then those of --set, then the options; each stronger than the one
    before."""
    from ottla.config.broker import BrokerConfig
    from ottla.config.properties import Properties
    from ottla.kernel.errors import KafkaError

    file = _read_file(settings.config) if settings.config else Properties("")
    given = {**file, **_sets(settings.set)}
    _apply_options(given, settings)
    try:
        return BrokerConfig(given)
    except KafkaError as error:
        name = str(getattr(error, "name", ""))
        if (option := _given_option(settings, name)) is not None:
            raise Failure(f"{option}: {_reason(error)}", ExitCode.USAGE) from error
        is_from_file = name in file and file[name] == given.get(name)
        place = f"{file.place_of(name)}: " if is_from_file else ""
        raise Failure(f"{place}{str(error).rstrip('.')}") from error


def given_settings(settings: Settings) -> dict[str, str]:
    """Those of the file and of --set."""
    file = _read_file(settings.config) if settings.config else {}
    return {**file, **_sets(settings.set)}


def _given_option(settings: Settings, name: str) -> str | None:
    """The option that set it, with its value."""
    flag = _FLAGS.get(name)
    value = None if flag is None else getattr(settings, flag[2:].replace("-", "_"))
    return None if value is None else f"{flag} {value or repr(value)}"


def _reason(error: KafkaError) -> str:
    reason = str(getattr(error, "reason", error))
    if "NAME://HOST:PORT" in reason:
        return f"give it as HOST:PORT, such as {DEFAULT_ADDRESS}"
    return reason.rstrip(".")


def _apply_options(given: dict[str, str], settings: Settings) -> None:
    if settings.data_dir is not None:
        _replace(given, _DIR_NAMES, settings.data_dir)
    elif not any(name in given for name in _DIR_NAMES):
        given["log.dirs"] = DEFAULT_DATA_DIR
    if settings.broker_id is not None:
        _replace(given, _ID_NAMES, settings.broker_id)
    if settings.zookeeper is not None:
        given["zookeeper.connect"] = settings.zookeeper
    if not any(name in given for name in _ID_NAMES):
        if given.get("zookeeper.connect") is not None:
            raise Failure(
                "--broker-id N is missing: each broker of a cluster has a number of its own, and "
                "keeps it",
                ExitCode.USAGE,
            )
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
    from ottla.config.properties import PropertiesError, parse_properties

    try:
        with open(path, "rb") as file:
            return parse_properties(file.read(), path)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except PropertiesError as error:
        raise Failure(str(error)) from error


def _say_ready(info: ReadyInfo, started_s: float) -> None:
    seconds = time.monotonic() - started_s
    print(
        f"ottla {__version__} ready: broker {info.broker_id} on {', '.join(info.addresses)}, "
        f"data in {', '.join(info.data_dirs)} ({seconds:.2f} s)",
        flush=True,
    )
    if sys.stdout.isatty() and info.addresses:
        _say_what_to_try(info.addresses[0])


def _say_stopped(config: BrokerConfig) -> None:
    sys.stderr.write(CLEAR_LINE)
    warn(f"stopped; the data stay in {', '.join(config.log_dirs)}")


def _say_what_to_try(address: str) -> None:
    where = "" if address == DEFAULT_ADDRESS else f" --bootstrap {address}"
    print(
        f"""
Try, in another terminal:
  echo hello | {command_line(f"produce greetings{where}")}
  {command_line(f"consume greetings --from-beginning{where}")}
Ctrl-C stops the broker.
""",
        flush=True,
    )
