"""What one client writes, every other reads: each compression, keys, headers, nulls, times."""

from __future__ import annotations

import subprocess

import pytest

from ottla.records.batch import HEADER_BYTES
from ottla.records.compression import Compression
from tests.support.clients import CLIENTS, Message
from tests.support.need import need_kcat
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import NOW_MS, Subject

COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]

MESSAGES = [
    Message(b"key", b"value", (("h", b"1"), ("h", b"2"), ("empty", b"")), NOW_MS - 1000),
    Message(None, b"no key", (), NOW_MS - 900),
    Message(b"no value", None, (), NOW_MS - 800),
    Message(b"", b"", (), NOW_MS - 700),
    Message("schlüssel".encode(), bytes(range(256)), (("ü", b"\0"),), NOW_MS - 2000),
    *(Message(b"%d" % n, b"compresses well " * 20, (), NOW_MS + n) for n in range(300)),
]


def compressions_in_log(broker: OttlaProcess, topic: str) -> set[Compression]:
    """As the batches lie in the file."""
    path = broker.data_dir / f"{topic}-0" / "00000000000000000000.log"
    data = path.read_bytes()
    found = set()
    position = 0
    while position + HEADER_BYTES <= len(data):
        found.add(Compression(data[position + 22] & 7))
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_every_client_reads_what_one_wrote(
    shared_broker: OttlaProcess, topic: str, writer: str, compression: str
) -> None:
    bootstrap = shared_broker.bootstrap
    CLIENTS[writer].produce(bootstrap, topic, MESSAGES, compression)
    assert Compression[compression.upper()] in compressions_in_log(shared_broker, topic)
    for reader, client in CLIENTS.items():
        assert client.consume(bootstrap, topic, len(MESSAGES)) == MESSAGES, reader
    kcat = [need_kcat(), "-b", bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", "-f", "%k=%S\n"]
    done = subprocess.run(kcat, capture_output=True, timeout=60, check=True)
    expected = [
        b"%s=%d" % (one.key or b"", -1 if one.value is None else len(one.value)) for one in MESSAGES
    ]
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_that_compresses(shared_broker: OttlaProcess, topic: str, target: str) -> None:
    """`compression.type`: whatever clients send is stored as the topic wants it."""
    bootstrap = shared_broker.bootstrap
    subject = Subject("Ottla", bootstrap)
    subject.create(topic, compression_type=target)
    subject.close()
    for compression in ("none", "gzip", "zstd"):
        CLIENTS["confluent-kafka"].produce(bootstrap, topic, MESSAGES, compression)
    wanted = Compression.NONE if target == "uncompressed" else Compression[target.upper()]
    assert compressions_in_log(shared_broker, topic) == {wanted}
    for reader, client in CLIENTS.items():
        assert client.consume(bootstrap, topic, 3 * len(MESSAGES)) == MESSAGES * 3, reader


def test_a_topic_that_stamps(shared_broker: OttlaProcess, topic: str) -> None:
    """`message.timestamp.type=LogAppendTime`: readers see when the broker got it."""
    bootstrap = shared_broker.bootstrap
    subject = Subject("Ottla", bootstrap)
    subject.create(topic, message_timestamp_type="LogAppendTime")
    subject.close()
    old = [Message(b"k", b"v", (), 5000), Message(b"k", b"w", (), 6000)]
    for client in CLIENTS.values():
        client.produce(bootstrap, topic, old, "gzip")
    for client in CLIENTS.values():
        found = client.consume(bootstrap, topic, 6)
        assert [message.value for message in found] == [b"v", b"w"] * 3
        assert all(message.timestamp_ms >= NOW_MS for message in found)
