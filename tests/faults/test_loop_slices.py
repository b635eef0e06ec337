"""No request holds the loop: the largest of every API, beside small produces on another connection
and a thousand open connections.

What others wait for is the loop's longest slice, in processor time: the broker aims at 1 ms, and
5 ms is what we want at most. The bounds here are wider, since processor time is not the same
everywhere: with thirty processes for two cores caches are cold, and slices that take 3 ms took up
to 24. Collections of garbage have a bound of their own: they visit all of a list that is new, and
that of a request of 100,000 elements took up to 60 ms on that machine. Whatever was wrong so far
took more than 100 ms at full count.

Not counted: the first use of an API, which imports and compiles it (up to 10 ms, once); and looks
of the garbage collector at everything, of which there are a handful (`kernel/garbage.py`).
"""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ottla.server.apis import ANSWERED
from ottla.wire.compile_decode import ELEMENTS_MAX
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.counts import count
from tests.support.largest_requests import EVERY_API, GROUP_OF_ALL, TOPIC, World, largest_requests
from tests.support.probed_broker import ProbedBroker, Slice
from tests.support.raw_client import RawClient, frame_of
from tests.support.raw_group import commit_request, wait_for_coordinator
from tests.support.simulated_broker import make_batch, produce_request

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
}
SLICE_MS_MAX = 40.0
GARBAGE_MS_MAX = count(100, quick=40)
ANSWER_S = 300
CONNECTION_COUNT = 1000
SMALL = 20
MANY = 200
"""Elements enough to be worked through in slices."""


def test_every_api_has_its_largest_request() -> None:
    assert set(EVERY_API) == set(ANSWERED)


@pytest.mark.timeout(1200)
def test_no_request_holds_the_loop(tmp_path: Path) -> None:
    with (
        ProbedBroker(tmp_path, SETTINGS) as broker,
        RawClient(broker.bootstrap, ANSWER_S) as client,
        _open_connections(broker.bootstrap),
    ):
        first = World(client, "first", SMALL, SMALL, SMALL, MANY)
        _prepare(first)
        for key in EVERY_API:
            for _, request, version in largest_requests(first, key):
                client.ask(request, version)
        large = _large_world(client)
        _grow(large)
        with _small_produces(broker.bootstrap):
            slices = _slices_of(broker, large)
    assert {case: each for case, each in slices.items() if not _is_short(each)} == {}
    assert max(each.look_count for each in slices.values()) < 10


def _is_short(longest: Slice) -> bool:
    work_ms = longest.ms - longest.garbage_ms
    return work_ms <= SLICE_MS_MAX and longest.garbage_ms <= GARBAGE_MS_MAX


def _slices_of(broker: ProbedBroker, world: World) -> dict[str, Slice]:
    slices: dict[str, Slice] = {}
    for key in EVERY_API:
        for name, request, version in largest_requests(world, key):
            frame = frame_of(request, version)
            del request
            broker.longest_slice()
            world.client.socket.sendall(frame)
            world.client.receive_frame()
            slices[f"{key.name}, {name}"] = longest = broker.longest_slice()
            print(longest, f"({key.name}, {name})")
    return slices


def _large_world(client: RawClient) -> World:
    partition_count = count(10_000, quick=500)
    # Each log has a file open.
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare_count = descriptors - partition_count - CONNECTION_COUNT - 1000
    return World(
        client,
        "large",
        partition_count,
        new_partition_count=max(SMALL, min(partition_count, spare_count // 2)),
        group_count=count(10_000, quick=500),
        element_count=count(ELEMENTS_MAX - 2, quick=10_000),
    )


def _prepare(world: World) -> None:
    ask = world.client.ask
    topic = CreatableTopic(name=TOPIC, num_partitions=world.partition_count, replication_factor=1)
    (created,) = ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
    assert created.error_code == 0, created.error_message
    wait_for_coordinator(ask, GROUP_OF_ALL)
    _commit(world)


def _grow(world: World) -> None:
    topic = CreatePartitionsTopic(name=TOPIC, count=world.partition_count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=60_000)
    (grown,) = world.client.ask(request, 3).results
    assert grown.error_code == 0, grown.error_message
    _commit(world)


def _commit(world: World) -> None:
    for number in range(world.group_count):
        world.client.tell(commit_request(f"g{number}", {TOPIC: {0: 1}}), 9)
        if number % 20 == 19:
            for _ in range(20):
                world.client.receive_frame()


@contextmanager
def _open_connections(bootstrap: str) -> Iterator[None]:
    host, _, port = bootstrap.rpartition(":")
    with ExitStack() as stack:
        for _ in range(CONNECTION_COUNT):
            stack.enter_context(socket.create_connection((host, int(port)), ANSWER_S))
        yield


@contextmanager
def _small_produces(bootstrap: str) -> Iterator[None]:
    """A client that produces one record after another."""
    frame = frame_of(produce_request(TOPIC, make_batch(b"small"), acks=1), 12)
    is_over = threading.Event()

    def produce() -> None:
        with RawClient(bootstrap, ANSWER_S) as client:
            while not is_over.wait(0.001):
                client.socket.sendall(frame)
                client.receive_frame()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
