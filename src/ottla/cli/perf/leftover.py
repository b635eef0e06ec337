"""The topic that a measurement leaves behind: deleted when asked to, else named, with the command
that deletes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, all_must_succeed
from ottla.cli.command_line import command_line
from ottla.cli.errors import Failure

DEFAULT_TOPIC = "ottla-perf"


def delete_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--delete/--keep",
        "is_deleted",
        default=None,
        help="Delete or keep the topic at the end, if perf created it. "
        "[default: ask on a terminal, else keep]",
    )(command)


class Leftover:
    """Made before anything is measured, so that a wish that cannot be granted ends it there. Only
    a topic of perf's own is ever deleted: one that this run made, or the one with its name."""

    def __init__(
        self, cluster: Cluster, topic: str, *, is_new: bool, is_deleted: bool | None
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._is_ours = is_new or topic == DEFAULT_TOPIC
        self._is_deleted = is_deleted
        if is_deleted and not self._is_ours:
            raise Failure(
                f"perf did not make {topic}, so it does not delete it; leave out --delete"
            )

    def settle(self, *, may_ask: bool) -> str:
        """When the results are out. Returns what became of the topic, for a person; nothing of
        one that is not perf's own."""
        if not self._is_ours:
            return ""
        is_deleted = self._is_deleted
        if is_deleted is None and may_ask and sys.stdin.isatty():
            question = f"Delete topic {self._topic} with its records?"
            is_deleted = click.confirm(question, default=False, err=True)
        if not is_deleted:
            delete = command_line(f"topics delete {self._topic}")
            return f"topic {self._topic} is kept; `{delete}` deletes it"
        admin = self._cluster.admin()  # it must outlive what it was asked for
        futures = admin.delete_topics([self._topic], request_timeout=REQUEST_TIMEOUT_S)
        all_must_succeed(futures, "could not delete")
        return f"deleted topic {self._topic}"
