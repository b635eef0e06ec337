"""Produce requests to one partition that begin like one before them: nearly all there are."""

from __future__ import annotations

import struct

from ottla.kernel.errors import KafkaError
from ottla.kernel.internal_topics import is_internal
from ottla.kernel.transport import Part
from ottla.records.batch import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    PRODUCER_ID_AT,
    TRANSACTIONAL_FLAG,
)
from ottla.records.validation import TakesLong
from ottla.server.services import Services
from ottla.wire.produce_heads import ProduceHead, ProduceHeads

_unpack_producer = struct.Struct(">qh").unpack_from


class RepeatedProduce:
    """A short cut past decoding, `handlers.produce` and encoding, in one version. Owned by the
    dispatcher. It answers what succeeds at once; for all else it changes nothing and answers
    nothing, and the handler says what is to be said."""

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
        if len(records) < HEADER_BYTES:
            return None
        # Looked up each time: topics come and go.
        replicas = self._services.replicas
        name = head.name or replicas.topic_name(head.topic_id) or ""
        if is_internal(name):
            return None
        try:
            partition = replicas.partition(name, head.index)
            if records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_FLAG and not (
                head.has_transactional_id
                and partition.has_open_transaction(*_unpack_producer(records, PRODUCER_ID_AT))
            ):
                return None  # The transaction coordinator is to be asked first.
            appended = partition.append_at_once(records, head.acks, self._version)
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
        self._heads.learn(frame, self._is_led)

    def _is_led(self, head: ProduceHead) -> bool:
        """Whoever writes to what is not here is not to fill the memory with it."""
        replicas = self._services.replicas
        try:
            replicas.partition(head.name or replicas.topic_name(head.topic_id) or "", head.index)
        except KafkaError:
            return False
        return True
