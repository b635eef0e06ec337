"""Fixtures for tests against real clients, real tools, and Apache Kafka itself."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from tests.conftest import stop_all
from tests.support.counts import IS_FULL
from tests.support.need import need_apache_kafka
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import SUBJECTS, Both, Subject
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


# Transactions time out here, and instances die in groups: nobody should wait for that.
_TRANSACTIONAL = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}


@pytest.fixture(scope="session", params=SUBJECTS if IS_FULL else SUBJECTS[:1])
def transactional_bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker that looks for transactions to time out more often than it would. With `--full` also
    Apache Kafka: what tests expect of Ottla must hold there."""
    folder = tmp_path_factory.mktemp("transactional-broker")
    if request.param == "Ottla":
        process = OttlaProcess(folder, settings=_TRANSACTIONAL)
        process.start()
        yield process.bootstrap
        stop_all([process], request.config)
    else:
        need_apache_kafka()
        with ApacheKafkaBroker(folder, settings=_TRANSACTIONAL, heap_mb=512) as kafka:
            yield kafka.bootstrap
