from __future__ import annotations

import socket
import struct
import threading

import pytest

from ottla.client.blocking import (
    BlockingConnection,
    BrokerUnreachable,
    ConnectionLost,
    Deadline,
    RequestTimedOut,
)
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.socket_broker import HOST, SocketBroker

VERSION = 9


def soon() -> Deadline:
    return Deadline(30)


def connect(broker: SocketBroker) -> BlockingConnection:
    return BlockingConnection(HOST, broker.port, client_id="me", deadline=soon())


def test_a_call_is_answered() -> None:
    with SocketBroker() as broker, connect(broker) as connection:
        answer = connection.call(MetadataRequest(), MetadataResponse, VERSION, soon())
        assert [topic.name for topic in answer.topics] == ["clicks"]


def test_requests_in_flight_together_get_their_own_answers() -> None:
    with SocketBroker() as broker, connect(broker) as connection:
        ids = iter((5, 6, 7))
        broker.answers[MetadataRequest] = lambda _: MetadataResponse(controller_id=next(ids))
        sent = [
            connection.send(MetadataRequest(), MetadataResponse, VERSION, soon()) for _ in range(3)
        ]
        # The last is waited for first: those before it come on the way.
        answers = [connection.wait(pending, soon()) for pending in reversed(sent)]
        assert [answer.controller_id for answer in answers] == [7, 6, 5]


def test_nobody_there() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerUnreachable, match=f"{HOST}:{port}: Connection refused"):
        BlockingConnection(HOST, port, client_id="me", deadline=soon())
    with pytest.raises(BrokerUnreachable, match=r"no-such-host\.invalid:1"):
        BlockingConnection("no-such-host.invalid", 1, client_id="me", deadline=soon())


def test_a_broker_that_does_not_answer_is_not_waited_for_longer_than_asked() -> None:
    with socket.create_server((HOST, 0)) as silent:
        port = silent.getsockname()[1]
        with BlockingConnection(HOST, port, client_id="me", deadline=soon()) as connection:
            with pytest.raises(RequestTimedOut, match=f"{port} did not answer in 0.1 s"):
                connection.call(MetadataRequest(), MetadataResponse, VERSION, Deadline(0.1))
            # Its answer may come yet; nobody may take it for another's.
            with pytest.raises(ConnectionLost, match="closed"):
                connection.call(MetadataRequest(), MetadataResponse, VERSION, soon())


def test_a_connection_that_is_cut_loses_all_that_is_in_flight() -> None:
    with SocketBroker() as broker, connect(broker) as connection:
        both_sent = threading.Event()

        def close(_: MetadataRequest) -> None:
            both_sent.wait()

        broker.answers[MetadataRequest] = close
        sent = [
            connection.send(MetadataRequest(), MetadataResponse, VERSION, soon()) for _ in range(2)
        ]
        both_sent.set()
        for pending in sent:
            with pytest.raises(ConnectionLost, match=f"{HOST}:{broker.port}"):
                connection.wait(pending, soon())
        assert connection.is_lost


@pytest.mark.parametrize(
    ("nonsense", "reason"),
    [
        (struct.pack(">i", -1), "-1"),
        (struct.pack(">i", 0x7FFF_FFFF), "2147483647"),
        (struct.pack(">iib", 5, 99, 0), "response 99 came where 0 was due"),
        (struct.pack(">iib", 5, 0, 0), "MetadataResponse"),
    ],
    ids=["negative size", "too large", "another's answer", "short body"],
)
def test_nonsense_ends_the_connection_and_says_why(nonsense: bytes, reason: str) -> None:
    with SocketBroker() as broker, connect(broker) as connection:
        broker.answers[MetadataRequest] = lambda _: nonsense
        with pytest.raises(ConnectionLost, match=reason):
            connection.call(MetadataRequest(), MetadataResponse, VERSION, soon())
        assert connection.is_lost


def test_a_version_that_cannot_say_it_is_an_error_of_the_request_alone() -> None:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with SocketBroker() as broker, connect(broker) as connection:
        with pytest.raises(KafkaError, match="METADATA: ") as raised:
            connection.call(request, MetadataResponse, 1, soon())
        assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
        connection.call(request, MetadataResponse, VERSION, soon())


def test_a_deadline_is_the_earlier_of_two() -> None:
    assert Deadline(5).at_most(60).total_s <= 5
    assert Deadline(60).at_most(5).total_s == 5
    assert Deadline(0).is_over
    assert not Deadline(0.01).pause(5)
    assert Deadline(60).pause(0.001)
    assert not soon().is_over
