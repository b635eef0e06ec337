from __future__ import annotations

import asyncio
import gc
import struct
from collections import Counter
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from ottla.kernel.clock import SystemClock
from ottla.kernel.errors import ErrorCode
from ottla.kernel.transport import Part
from ottla.server.apis import ANSWERED, ANSWERED_TO_BROKERS
from ottla.server.dispatch import Answer, Dispatcher
from ottla.server.errors import BadRequest
from ottla.wire.api import APIS, ApiKey
from ottla.wire.codec import codec
from ottla.wire.header import RequestHeader, append_request, decode_response_header
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.schema import Request, Response
from tests.support.plain_requests import plain_request
from tests.support.simulated_broker import SimulatedBroker, with_broker

R = TypeVar("R", bound=Response)

CORRELATION_ID = 77
CLIENTS_PORT = 9093
NOT_REGISTERED = (
    ErrorCode.STALE_BROKER_EPOCH,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
)


def dispatcher() -> Dispatcher:
    """The requests of these tests ask for nothing that a broker has but time."""
    return Dispatcher(cast("Any", SimpleNamespace(clock=SystemClock())))


def frame_of(request: Request, version: int) -> memoryview:
    parts: list[Part] = []
    header = RequestHeader(request.API_KEY, version, CORRELATION_ID, "me")
    append_request(header, codec(type(request), version).encode, request, parts)
    return memoryview(b"".join(cast("list[bytes]", parts)))[4:]


def dispatch(frame: memoryview | bytes) -> Answer:
    return dispatcher().dispatch(memoryview(frame), "PLAINTEXT", "somebody")


def decode(
    reply: Answer,
    response_class: type[R],
    version: int,
    *,
    header_version: int,
) -> R:
    assert isinstance(reply, list)
    content = b"".join(cast("list[bytes]", reply))
    assert struct.unpack_from(">i", content) == (len(content) - 4,)
    correlation_id, position = decode_response_header(content[4:], header_version)
    assert correlation_id == CORRELATION_ID
    response, end = codec(response_class, version).decode(memoryview(content)[4:], position)
    assert end == len(content) - 4
    return response


@pytest.mark.parametrize(("version", "header_version"), [(1, 0), (2, 1), (3, 1)])
def test_a_reply_has_the_header_of_its_version(version: int, header_version: int) -> None:
    reply = dispatch(frame_of(DescribeAclsRequest(), version))
    response = decode(reply, DescribeAclsResponse, version, header_version=header_version)
    assert response.error_code == ErrorCode.SECURITY_DISABLED


@pytest.mark.parametrize("version", [0, 3, 4])
def test_api_versions_has_the_oldest_header_always(version: int) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    reply = dispatch(frame_of(request, version))
    response = decode(reply, ApiVersionsResponse, version, header_version=0)
    assert response.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [5, 127, -1])
def test_api_versions_of_an_unknown_version_is_told_which_there_are(version: int) -> None:
    frame = struct.pack(">hhih", ApiVersionsRequest.API_KEY, version, CORRELATION_ID, -1) + b"\0??"
    response = decode(dispatch(frame), ApiVersionsResponse, 0, header_version=0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    told = [(one.api_key, one.min_version, one.max_version) for one in response.api_keys]
    assert told == [(ApiVersionsRequest.API_KEY, 0, 4)]


def test_an_answer_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(*_: object) -> ListOffsetsResponse:
        await asyncio.sleep(0)
        return ListOffsetsResponse(throttle_time_ms=7)

    monkeypatch.setattr("ottla.server.dispatch.handler_of", lambda key: handle)

    async def main() -> None:
        future = dispatch(frame_of(ListOffsetsRequest(replica_id=-1), 7))
        assert isinstance(future, asyncio.Future)
        response = decode(await future, ListOffsetsResponse, 7, header_version=1)
        assert response.throttle_time_ms == 7

    asyncio.run(main())


def test_a_coroutine_that_waits_for_nothing_answers_at_once() -> None:
    async def main() -> None:
        reply = dispatch(frame_of(ListOffsetsRequest(replica_id=-1), 7))
        assert isinstance(reply, list)
        decode(reply, ListOffsetsResponse, 7, header_version=1)

    asyncio.run(main())


def test_a_request_may_want_no_answer() -> None:
    assert dispatch(frame_of(ProduceRequest(acks=0), 9)) is None


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (struct.pack(">hhih", 9999, 0, 1, -1), "API key 9999"),
        (struct.pack(">hhih", ListOffsetsRequest.API_KEY, 99, 1, -1) + b"\0", "LIST_OFFSETS v99"),
        (struct.pack(">hhih", ListOffsetsRequest.API_KEY, 0, 1, -1), "only v1 to v11"),
        (struct.pack(">hhih", ListOffsetsRequest.API_KEY, -1, 1, -1), "LIST_OFFSETS v-1"),
        (frame_of(ListOffsetsRequest(replica_id=-1), 7)[:-3], "LIST_OFFSETS v7"),
        (b"", "request header"),
        (struct.pack(">hhih", 3, 0, 1, 100), "client_id"),
    ],
)
def test_what_is_no_request_of_ours_is_named(frame: memoryview | bytes, what: str) -> None:
    with pytest.raises(BadRequest, match=what):
        dispatch(frame)


def test_a_bad_request_does_not_spoil_the_next() -> None:
    shared = dispatcher()
    good = frame_of(DescribeAclsRequest(), 3)
    for _ in range(2):
        with pytest.raises(BadRequest):
            shared.dispatch(good[:-3], "PLAINTEXT", "somebody")
        reply = shared.dispatch(good, "PLAINTEXT", "somebody")
        decode(reply, DescribeAclsResponse, 3, header_version=1)


@pytest.mark.parametrize("api_key", [17, 36])
def test_a_client_that_wants_to_log_in_is_told_how_to_do_without(api_key: int) -> None:
    with pytest.raises(BadRequest, match=r"SASL, .*security\.protocol=PLAINTEXT"):
        dispatch(struct.pack(">hhih", api_key, 1, CORRELATION_ID, -1))


def test_no_request_leaves_a_cycle_behind() -> None:
    """What the collector has met alive it looks at ever more rarely: see `kernel.garbage`."""

    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        everything = FetchTopic(
            topic_id=topic_id, partitions=[FetchPartition(partition_max_bytes=1 << 20)]
        )
        requests = [
            plain_request(ApiKey(key), APIS[ApiKey(key)].advertised_versions.stop - 1)
            for key in sorted(ANSWERED)
        ]
        requests += [
            FetchRequest(session_epoch=-1, min_bytes=1, max_bytes=1 << 20, topics=[everything]),
            FetchRequest(session_epoch=-1, max_wait_ms=10, min_bytes=1 << 20, topics=[everything]),
        ]
        client = await broker.connect()

        async def ask() -> None:
            await broker.produce("t", b"v")
            for request in requests:
                api = APIS[ApiKey(request.API_KEY)]
                await client.call(request, api.response, api.advertised_versions.stop - 1)
            await asyncio.sleep(1)

        await ask()  # What is made once may have cycles.
        gc.collect()
        gc.disable()
        try:
            await ask()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert Counter(type(each).__name__ for each in gc.garbage) == {}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    with_broker(test)


@pytest.mark.parametrize("key", ANSWERED_TO_BROKERS)
def test_what_brokers_say_among_themselves_is_taken_on_their_listener_only(key: ApiKey) -> None:
    async def test(broker: SimulatedBroker) -> None:
        version = ANSWERED_TO_BROKERS[key][-1]
        request, response_class = APIS[key].request(), APIS[key].response
        with pytest.raises(ConnectionError):
            await (await broker.connect(CLIENTS_PORT)).call(request, response_class, version)
        response: Any = await broker.call(request, response_class, version)
        if hasattr(response, "error_code"):
            assert response.error_code in NOT_REGISTERED
        older = ANSWERED_TO_BROKERS[key][0] - 1
        if older in APIS[key].versions:
            with pytest.raises(ConnectionError):
                await broker.call(request, response_class, older)

    with_broker(
        test,
        listeners=f"PLAINTEXT://localhost:9092,CLIENTS://localhost:{CLIENTS_PORT}",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT",
    )


def test_what_brokers_say_among_themselves_is_not_listed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        response = await broker.call(
            ApiVersionsRequest(client_software_name="x", client_software_version="1"),
            ApiVersionsResponse,
        )
        assert not {each.api_key for each in response.api_keys} & {*ANSWERED_TO_BROKERS}

    with_broker(test)
