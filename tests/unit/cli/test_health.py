"""What is wrong with partitions."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli import health
from ottla.cli.health import all_problems, health_text, problems_by_topic, problems_of


@pytest.mark.parametrize(
    ("leader", "replicas", "isr", "min_isr", "problems"),
    [
        (1, [1], [1], 1, []),
        (1, [1, 2, 3], [3, 1, 2], 2, []),
        (2, [1, 2, 3], [1, 2, 3], 2, ["not on preferred leader"]),
        (1, [1, 2, 3], [1, 2], 2, ["under-replicated"]),
        (1, [1, 2, 3], [1], 2, ["under-replicated", "under-min-isr"]),
        (None, [1, 2], [1], 1, ["offline", "under-replicated"]),
        (None, [1], [], 1, ["offline", "under-replicated", "under-min-isr"]),
        # One replica can't be two in sync: acks=all is refused, but no replica is missing.
        (1, [1], [1], 2, []),
    ],
)
def test_problems(
    leader: int | None, replicas: list[int], isr: list[int], min_isr: int, problems: list[str]
) -> None:
    assert problems_of(leader, replicas, isr, min_isr) == problems


def topic(*partitions: tuple[int, list[int], list[int]]) -> Any:
    return SimpleNamespace(
        partitions={
            number: SimpleNamespace(leader=leader, replicas=replicas, isrs=isrs)
            for number, (leader, replicas, isrs) in enumerate(partitions)
        }
    )


def test_only_topics_with_replicas_behind_are_asked_for_their_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def readable_configs(admin: Any, entity_type: str, names: list[str]) -> Any:
        asked.extend(names)
        return {name: {"min.insync.replicas": {"value": "2"}} for name in names}

    monkeypatch.setattr(health, "readable_configs", readable_configs)
    admin: Any = None
    topics = {
        "well": topic((1, [1, 2], [1, 2]), (1, [1, 2], [2, 1])),
        "ill": topic((-1, [1, 2], [2]), (1, [1, 2], [1]), (2, [1, 2], [1, 2])),
    }

    found = problems_by_topic(admin, topics)

    assert asked == ["ill"]
    assert found["well"] == {}
    assert found["ill"] == {
        "offline": 1,
        "under-replicated": 2,
        "under-min-isr": 2,
        "not on preferred leader": 1,
    }
    assert all_problems(found.values()) == found["ill"]


def test_a_topic_whose_settings_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted meanwhile, say. The others are told of."""
    configs = {"ill": {"min.insync.replicas": {"value": "2"}}}
    monkeypatch.setattr(health, "readable_configs", lambda *_: configs)
    admin: Any = None
    topics = {"ill": topic((1, [1, 2], [1])), "gone": topic((1, [1, 2], [1]))}

    found = problems_by_topic(admin, topics)

    assert found["ill"] == {"under-replicated": 1, "under-min-isr": 1}
    assert found["gone"] == {"under-replicated": 1}


def test_health_in_words() -> None:
    assert health_text({}) == "ok"
    assert health_text(Counter({"under-replicated": 3, "offline": 1})) == (
        "1 offline, 3 under-replicated"
    )
