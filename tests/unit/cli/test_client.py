"""The connection to a cluster, and what its errors are in words."""

from __future__ import annotations

import socket
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import click
import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.cli.client import (
    Cluster,
    addresses_of,
    client_options,
    explain,
    find_topic,
    message_of,
    one_line,
    wait_for,
)
from ottla.cli.errors import Failure

CLUSTER = Cluster("somewhere:9092", {})


class FakeTopic:
    def __init__(self, code: int | None) -> None:
        self.error = None if code is None else KafkaError(code)
        self.partitions = {0: object()}


class FakeClient:
    """Answers metadata requests with these errors, one after another, then with success. There
    are `clicks` and `views`."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        if topic is None:
            return SimpleNamespace(topics={"clicks": FakeTopic(None), "views": FakeTopic(None)})
        code = self._codes.pop(0) if self._codes else None
        return SimpleNamespace(topics={topic: FakeTopic(code)})


def error(code: int, reason: str | None = None) -> KafkaException:
    return KafkaException(KafkaError(code) if reason is None else KafkaError(code, reason))


@pytest.mark.parametrize(
    ("bootstrap", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a, b:1", [("a", 9092), ("b", 1)]),
        ("[::1]:5", [("::1", 5)]),
        ("PLAINTEXT://h:7", [("h", 7)]),
    ],
)
def test_addresses(bootstrap: str, addresses: list[tuple[str, int]]) -> None:
    assert addresses_of(bootstrap) == addresses


@pytest.mark.parametrize("bootstrap", ["", "a:b", "a:70000", "::1", "a b:1", "a:1,,b:1"])
def test_no_address_is_a_usage_error(bootstrap: str) -> None:
    with pytest.raises(click.BadParameter):
        addresses_of(bootstrap)


def test_an_unreachable_cluster_is_said_at_once_with_the_reason() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]  # bound, but nobody listens

        with pytest.raises(Failure, match=rf"127\.0\.0\.1:{port} \(connection refused\)"):
            Cluster(f"127.0.0.1:{port}", {}).check_reachable()


def test_one_reachable_address_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Cluster(f"127.0.0.1:1,127.0.0.1:{listener.getsockname()[1]}", {}).check_reachable()


def test_a_property_may_set_the_bootstrap() -> None:
    assert Cluster("a:1", {"bootstrap.servers": "b:2"}).effective_bootstrap == "b:2"


def test_options_become_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    @click.command()
    @client_options
    def command(cluster: Cluster) -> None:
        seen.append(cluster)

    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    command.main([], standalone_mode=False)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "from-environment:1")
    command.main(["--property", "debug=all"], standalone_mode=False)
    command.main(["--bootstrap", "from-option:1"], standalone_mode=False)

    assert seen == [
        Cluster("localhost:9092", {}),
        Cluster("from-environment:1", {"debug": "all"}),
        Cluster("from-option:1", {}),
    ]


def test_a_kafka_error_inside_a_command_becomes_a_failure() -> None:
    @click.command()
    @client_options
    def command(cluster: Cluster) -> None:
        raise error(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(Failure, match="TOPIC_AUTHORIZATION_FAILED"):
        command.main([], standalone_mode=False)


def test_errors_are_the_brokers_words_and_the_codes_name() -> None:
    text = message_of(error(KafkaError.INVALID_CONFIG, "Unknown topic config name: foo"))

    assert text == "Unknown topic config name: foo (INVALID_CONFIG)"
    assert message_of(error(KafkaError.TOPIC_ALREADY_EXISTS)) == (
        "Topic already exists (TOPIC_ALREADY_EXISTS)"
    )


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (KafkaError._TRANSPORT, "does not answer as a Kafka broker"),
        (KafkaError._TIMED_OUT, "somewhere:9092 did not answer in time"),
        (KafkaError._INVALID_ARG, "bad client setting"),
    ],
)
def test_errors_of_the_connection_say_where(code: int, text: str) -> None:
    assert text in explain(error(code), CLUSTER)


def test_answers_and_failures_are_told_apart() -> None:
    good: Future[int] = Future()
    good.set_result(5)
    bad: Future[int] = Future()
    bad.set_exception(error(KafkaError.TOPIC_ALREADY_EXISTS))

    answers, failures = wait_for({"a": good, "b": bad})

    assert answers == {"a": 5}
    assert one_line(failures.items()) == "b: Topic already exists (TOPIC_ALREADY_EXISTS)"


def test_a_topic_that_is_not_there_says_what_to_do() -> None:
    client: Any = FakeClient(KafkaError.UNKNOWN_TOPIC_OR_PART)

    with pytest.raises(Failure, match="no topic 't'; create it with `ottla topics create t`"):
        find_topic(client, "t")


def test_a_topic_that_is_not_there_says_what_may_have_been_meant() -> None:
    client: Any = FakeClient(KafkaError.UNKNOWN_TOPIC_OR_PART)

    with pytest.raises(Failure, match=r"no topic 'clik'; did you mean 'clicks'\?"):
        find_topic(client, "clik")


def test_a_topic_that_the_broker_is_just_creating_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client: Any = FakeClient(KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)

    assert list(find_topic(client, "t", may_appear=True).partitions) == [0]
    assert capsys.readouterr().err == "ottla: created topic t with 1 partition\n"


def test_a_topic_that_may_appear_and_is_there_is_nothing_new(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client: Any = FakeClient()

    find_topic(client, "clicks", may_appear=True)
    assert capsys.readouterr().err == ""


def test_another_error_of_a_topic_is_that_error() -> None:
    client: Any = FakeClient(KafkaError.TOPIC_EXCEPTION)

    with pytest.raises(KafkaException):
        find_topic(client, "t", may_appear=True)
