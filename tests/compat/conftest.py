"""Fixtures for tests against real clients, real tools, and Apache Kafka itself."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import Both, Subject
from tools.apache_kafka import ApacheKafkaBroker


@pytest.fixture
def both(shared_broker: OttlaProcess, apache_kafka: ApacheKafkaBroker) -> Iterator[Both]:
    """Ottla and Apache Kafka, each behind a raw connection."""
    subjects = (
        Subject("Ottla", shared_broker.bootstrap),
        Subject("Apache Kafka", apache_kafka.bootstrap),
    )
    yield subjects
    for subject in subjects:
        subject.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses: Apache Kafka is shared by all of them."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    return f"{name[:60].strip('-')}-{uuid.uuid4().hex[:8]}"
