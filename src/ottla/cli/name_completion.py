"""Shell completion of names that only the broker knows: topics, groups, brokers, settings.

The shell waits while it is asked, so it has 0.3 s to answer, and 0.1 s to be there at all. Where
there is no broker, or a slow one, or anything else is wrong, there is nothing to complete, and
nothing is said: this runs while somebody types.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

import click
from confluent_kafka.admin import AdminClient, ConfigResource

from ottla.cli.client import DEFAULT_BOOTSTRAP, Cluster
from ottla.cli.options import pairs

_TIMEOUT_S = 0.3
_CONNECT_S = 0.1
_INTERNAL = "__"

Ask = Callable[[AdminClient], Iterable[str]]


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Internal topics are offered to whoever begins to type one."""
    names = _asked(ctx, param, incomplete, _topics)
    return [name for name in names if incomplete.startswith("_") or not name.startswith(_INTERNAL)]


def complete_group(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _asked(ctx, param, incomplete, _groups)


def complete_entity(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The name that follows topic, broker or group."""
    match _argument(ctx, "entity_type"):
        case "topic":
            return complete_topic(ctx, param, incomplete)
        case "group":
            return complete_group(ctx, param, incomplete)
        case _:
            return _asked(ctx, param, incomplete, _brokers)


def complete_setting(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """KEY, or KEY= for an option that takes KEY=VALUE. Without a name, as for a topic that is to
    be created, the settings of any topic."""
    entity_type = _argument(ctx, "entity_type") or "topic"
    name = _argument(ctx, "name")
    end = "=" if "=" in (param.metavar or "") else ""

    def ask(admin: AdminClient) -> list[str]:
        known = name or next(iter(_topics(admin)))
        return [f"{key}{end}" for key in _settings(admin, entity_type, known)]

    return _asked(ctx, param, incomplete, ask)


def _argument(ctx: click.Context, name: str) -> str | None:
    """click leaves the arguments of a command in `args` when it stops at an option that has no
    value yet."""
    names = [param.name for param in ctx.command.params if isinstance(param, click.Argument)]
    given = dict(zip(names, ctx.args, strict=False)) | {
        key: value for key, value in ctx.params.items() if value
    }
    return given.get(name)


def _asked(ctx: click.Context, param: click.Parameter, incomplete: str, ask: Ask) -> list[str]:
    """Names that begin so, without those that are on the command line already."""
    given = ctx.params.get(param.name or "") or ()
    names = _in_time(lambda: ask(_admin(ctx)))
    return sorted(name for name in names if name.startswith(incomplete) and name not in given)


def _in_time(ask: Callable[[], Iterable[str]]) -> list[str]:
    found: list[str] = []

    def run() -> None:
        try:
            found.extend(ask())
        except Exception:  # whatever it is: a shell that completes is no place to tell
            pass

    # Not every wait has a time-out of its own: looking up a host's name has none.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S)
    return found.copy()


def _admin(ctx: click.Context) -> AdminClient:
    bootstrap = str(ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP)
    if not _is_there(bootstrap):
        raise ConnectionError(bootstrap)
    properties = pairs(ctx.params.get("properties") or (), "--property")
    return Cluster(bootstrap, properties).admin({"error_cb": lambda _error: None})


def _is_there(bootstrap: str) -> bool:
    """Whether any of them listens. librdkafka would try again and again, and the shell would wait
    for all of its time."""
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError):
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            return True
    return False


def _topics(admin: AdminClient) -> list[str]:
    return list(admin.list_topics(timeout=_TIMEOUT_S).topics)


def _brokers(admin: AdminClient) -> list[str]:
    return [str(id) for id in admin.list_topics(timeout=_TIMEOUT_S).brokers]


def _groups(admin: AdminClient) -> list[str]:
    answer = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S)
    return [group.group_id for group in answer.valid]


def _settings(admin: AdminClient, entity_type: str, name: str) -> list[str]:
    """Those that can be changed."""
    resource = ConfigResource(entity_type, name)
    futures = admin.describe_configs([resource], request_timeout=_TIMEOUT_S)
    entries = futures[resource].result(_TIMEOUT_S)
    return [key for key, entry in entries.items() if not entry.is_read_only]
