"""Produce requests to one partition that begin like one before them: nearly all there are."""

from __future__ import annotations

import struct

from ottla.kernel.errors import KafkaError
from ottla.kernel.transport import Part
from ottla.records.batch import PRODUCER_ID_AT
from ottla.records.validation import TakesLong
from ottla.server.produce_rules import refusal, topic_name
from ottla.server.services import Services
from ottla.server.transactional_produce import is_transactional
from ottla.wire.produce_heads import ProduceHead, ProduceHeads

_unpack_producer = struct.Struct(">qh").unpack_from


class RepeatedProduce:
    """A short cut past decoding, `handlers.produce` and encoding, in one version. Owned by the
    dispatcher. It answers what succeeds at once; for all else it changes nothing and answers
    nothing, and the handler says what is to be said.

    No rule is written here a second time: those of the head were asked when it was learnt, those of
    the records are the partition's, and what could need the transaction coordinator is left to the
    handler."""

    __slots__ = ("_heads", "_services", "_version")

    def __init__(self, version: int, services: Services) -> None:
        self._version = version
        self._heads = ProduceHeads(version)
        self._services = services

    def answer(self, frame: memoryview) -> list[Part] | None:
        found = self._heads.find(frame)
        if found is None:
            return None
        head, correlation_id, records = found
        # Looked up each time: topics come and go.
        replicas = self._services.replicas
        name = topic_name(replicas, head.name, head.topic_id)
        try:
            partition = replicas.partition(name, head.index)
            leader = partition.leader
            if is_transactional(records) and not (
                head.has_transactional_id
                and leader.has_open_transaction(*_unpack_producer(records, PRODUCER_ID_AT))
            ):
                return None  # The transaction coordinator is to be asked first.
            appended = leader.append_at_once(records, head.acks, self._version)
        except (KafkaError, TakesLong):
            return None  # Nothing was appended. The handler meets the same error.
        if appended is None:
            return None
        return [
            head.reply(
                correlation_id,
                appended.first_offset,
                appended.log_append_time_ms,
                partition.log.log_start_offset,
            )
        ]

    def learn(self, frame: memoryview) -> None:
        """After the handler has answered."""
        self._heads.learn(frame, self._may_write)

    def _may_write(self, head: ProduceHead, client_id: str | None) -> bool:
        """Whoever writes to what is not here is not to fill the memory with it, either."""
        replicas = self._services.replicas
        name = topic_name(replicas, head.name, head.topic_id)
        try:
            replicas.partition(name, head.index)
        except KafkaError:
            return False
        return refusal(name, head.acks, client_id) is None
