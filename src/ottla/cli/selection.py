"""Partitions as they are named on a command line: TOPIC, or TOPIC:0,1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import click
from confluent_kafka.admin import AdminClient

from ottla.cli.client import find_topic
from ottla.cli.errors import Failure
from ottla.cli.name_completion import complete_topic
from ottla.cli.offsets import Partition

Selection = dict[str, list[int] | None]
"""Partitions by topic; None stands for all of them."""

topic_option = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P]",
    shell_complete=complete_topic,
    help="A topic, or some of its partitions. May be repeated.",
)


def selection_of(texts: Sequence[str], option: str = "--topic") -> Selection:
    """From TOPIC or TOPIC:0,1, each topic once."""
    found: Selection = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", numbers)):
            raise click.BadParameter(
                f"{text!r} is neither TOPIC nor TOPIC:0,1", param_hint=f"'{option}'"
            )
        if topic in found:
            raise click.BadParameter(f"{topic!r} is given twice", param_hint=f"'{option}'")
        found[topic] = sorted({int(number) for number in numbers.split(",")}) if colon else None
    return found


def within(selection: Selection, partitions: Iterable[Partition]) -> list[Partition]:
    """Those of the partitions that are selected."""
    return sorted(
        (topic, number)
        for topic, number in partitions
        if topic in selection and ((numbers := selection[topic]) is None or number in numbers)
    )


def existing_partitions(admin: AdminClient, selection: Selection) -> list[Partition]:
    """Raises Failure for topics and partitions that are not there."""
    found: list[Partition] = []
    for topic, numbers in selection.items():
        there = find_topic(admin, topic).partitions
        if missing := [number for number in numbers or () if number not in there]:
            raise Failure(
                f"{topic!r} has {len(there)} partitions, "
                f"and no {', '.join(map(str, missing))} among them"
            )
        found += [(topic, number) for number in numbers or sorted(there)]
    return sorted(found)
