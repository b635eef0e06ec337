"""The topics of the command line: names, and regular expressions, which begin with ^ as they do
for librdkafka and kcat. No topic's name can have a ^ in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import click
from confluent_kafka import Consumer

from ottla.cli.client import METADATA_TIMEOUT_S, find_topic
from ottla.cli.errors import Failure
from ottla.cli.offsets import Partition

_INTERNAL = "__"
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9._-]")


class ChosenTopics:
    """Made from the arguments, and asked again for what a regular expression matches by now."""

    def __init__(self, texts: Iterable[str], partitions: Iterable[int] = ()) -> None:
        """Raises BadParameter for what is neither a name nor a regular expression."""
        self.texts = tuple(dict.fromkeys(texts))
        self._names = [text for text in self.texts if not text.startswith("^")]
        self._patterns = [_compiled(text) for text in self.texts if text.startswith("^")]
        self._partitions = sorted(set(partitions))
        for name in self._names:
            if _NOT_IN_A_NAME.search(name):
                raise click.BadParameter(
                    f"{name!r} is not a topic name; a regular expression begins with ^, "
                    f"such as '^{name}'",
                    param_hint="'TOPIC...'",
                )

    def __str__(self) -> str:
        """For a sentence."""
        *first, last = self.texts
        return f"{', '.join(first)} and {last}" if first else last

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    @property
    def is_single(self) -> bool:
        return len(self.texts) == 1 and not self._patterns

    @property
    def ignored_by_patterns(self) -> str:
        """As librdkafka's `topic.blacklist`. A regular expression means internal topics only where
        it begins like them, as with Kafka's own consumers."""
        asked = [*self._names, *(pattern.pattern[1:] for pattern in self._patterns)]
        return "" if any(text.startswith(_INTERNAL) for text in asked) else f"^{_INTERNAL}"

    def find(self, consumer: Consumer) -> list[Partition]:
        """The partitions that there are now. Raises Failure for a topic, or a partition of one,
        that is named and does not exist."""
        found: dict[Partition, None] = {}
        for name in self._names:
            known = sorted(find_topic(consumer, name).partitions)
            for partition in self._partitions:
                if partition not in known:
                    last = len(known) - 1
                    raise Failure(f"{name} has partitions 0 to {last} only, no {partition}")
            found.update(dict.fromkeys((name, number) for number in self._partitions or known))
        for name, numbers in self._matching(consumer):
            chosen = [n for n in sorted(numbers) if n in self._partitions or not self._partitions]
            found.update(dict.fromkeys((name, number) for number in chosen))
        return list(found)

    def _matching(self, consumer: Consumer) -> list[tuple[str, Sequence[int]]]:
        if not self._patterns:
            return []
        topics = consumer.list_topics(timeout=METADATA_TIMEOUT_S).topics
        return [
            (name, list(topics[name].partitions))
            for name in sorted(topics)
            if not (self.ignored_by_patterns and name.startswith(_INTERNAL))
            and any(pattern.match(name) for pattern in self._patterns)
        ]


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(
            f"{text!r} is not a regular expression: {error}", param_hint="'TOPIC...'"
        ) from error
