"""Answers in a form in which those of two brokers compare, and what of them may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import BatchHeader, iter_headers
from ottla.records.record import iter_records
from ottla.wire.schema import Struct
from tests.support.random_requests.stage import Stage
from tests.support.side_by_side import NOW_MS

HOUR_MS = 3_600_000


def _left_out(stage: Stage, value: Any) -> Any:
    return "left out"


def _presence(stage: Stage, value: Any) -> Any:
    return value is not None


def _own_id(stage: Stage, value: Any) -> Any:
    """By the name that it has at both; one that a sequence has not met is just an id."""
    is_none = not any(value) if isinstance(value, bytes) else value in (None, "", -1, 0)
    return value if is_none else stage.names.get(value, "an id")


def _session_id(stage: Stage, value: Any) -> Any:
    return value > 0


def _time(stage: Stage, value: Any) -> Any:
    """No request carries a time of this hour but NOW_MS itself."""
    return "now" if NOW_MS < value < NOW_MS + HOUR_MS else value


def _sorted(stage: Stage, value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, list) else value


_KEYS = ("name", "topic", "partition_index", "partition", "index", "topic_id")


def _by_key(elements: list[Any]) -> Any:
    """Topics by name, partitions by number. Apache Kafka answers in the order of a hash map, and a
    Fetch of it lists a topic twice where one partition has an error."""
    first = elements[0] if elements else None
    keys = [key for key in _KEYS if isinstance(first, dict) and key in first]
    if not keys:
        return elements
    found: dict[str, Any] = {}
    for element in elements:
        name = " ".join(str(element[key]) for key in keys)
        partitions = element.get("partitions")
        if name not in found:
            found[name] = element
        elif isinstance(partitions, dict) and found[name]["partitions"].keys().isdisjoint(
            partitions
        ):
            found[name]["partitions"] |= partitions
        else:
            found[f"{name} again"] = element
    return found


class MayDiffer(NamedTuple):
    fields: str
    why: str
    compared_as: Callable[[Stage, Any], Any]


MAY_DIFFER = (
    MayDiffer("host port cluster_id", "each broker has its own", _left_out),
    MayDiffer(
        "topic_id producer_id member_id leader",
        "each broker gives out its own ids; they compare by what they are the ids of",
        _own_id,
    ),
    MayDiffer(
        "partitions subscribed_topic_names active_producers",
        "Kafka's order is that of a hash map",
        _sorted,
    ),
    MayDiffer("session_id", "each broker gives out its own; whether it did", _session_id),
    MayDiffer(
        "error_message batch_index_error_message documentation",
        "texts are our own; whether there is one is compared",
        _presence,
    ),
    MayDiffer(
        "log_append_time_ms timestamp max_timestamp base_timestamp last_timestamp"
        " transaction_start_time_ms",
        "two clocks; what a client has sent is compared",
        _time,
    ),
)

NOT_SENT = {
    "records that are null; one resource twice in AlterConfigs": "Apache Kafka never answers",
    "batches in DIFFERS of sent_batches.py": "as it says there",
    "an operation of IncrementalAlterConfigs that does not exist; a topic without a name in"
    " DescribeTopicPartitions; a compressed batch whose offsets have gaps, where it is stored as"
    " it came": "Apache Kafka fails with UNKNOWN_SERVER_ERROR",
    "the offset of the largest timestamp, after DeleteRecords": "Apache Kafka names a record that"
    " is gone",
    "the offset of a time, after DeleteRecords": "Apache Kafka finds none while there is a segment"
    " of which all records are deleted, and which it has not deleted yet",
    "an EndTxn v5 in the epoch before, after one of an older version": "Apache Kafka takes it for a"
    " retry, and so tells a fenced producer the epoch of its successor",
    "one partition twice in DescribeProducers": "what is named again we do not describe again",
    "a subscription by an expression": "Apache Kafka resolves it in the background",
    "a join of a consumer group without topics": "that alone does not advance the group's epoch; if"
    " an assignment is due for another reason, Apache Kafka takes all members for subscribed to the"
    " same topics, and those of the first, which may be this one: then nobody has any partition",
    "the assignor uniform; the leave of a leader that has followers; a join under two instance"
    " ids": "what follows depends on the order of hash maps",
    "commits to the group without a name; changes of the broker's settings": "all tests share them",
    "a later request of a fetch session in an older version": "it cannot carry the answer",
}
"""What sequences leave out, and why."""

OTHER_SETTINGS = ("share.", "streams.")
"""Settings of groups that are not here: of share groups and of Streams groups."""

OTHER_SOURCES = {
    "min.insync.replicas": "with eligible leader replicas (KRaft) it is one of the cluster",
}
"""Settings that come from elsewhere in Apache Kafka, and why."""

_RULES: dict[str, Callable[[Stage, Any], Any]] = {
    name: rule.compared_as for rule in MAY_DIFFER for name in rule.fields.split()
}


def comparable(stage: Stage, value: Any) -> Any:
    if isinstance(value, Struct):
        return {field.name: _field(stage, field.name, value) for field in value.FIELDS}
    if isinstance(value, dict):
        return {name: comparable(stage, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        value = [
            one for one in value if not str(getattr(one, "name", "")).startswith(OTHER_SETTINGS)
        ]
        return _by_key([comparable(stage, one) for one in value])
    return value


def _field(stage: Stage, name: str, struct: Struct) -> Any:
    value = getattr(struct, name)
    if name in ("config_source", "synonyms") and getattr(struct, "name", "") in OTHER_SOURCES:
        return "left out"
    if name == "records" and value is not None:
        return list(_batches(stage, value))
    if name.endswith("error_code"):
        return ErrorCode(value).name
    if name in _RULES:
        return _RULES[name](stage, comparable(stage, value))
    return comparable(stage, value)


def _batches(stage: Stage, content: Any) -> Iterator[Any]:
    """Compressed bytes may differ, records may not."""
    view = memoryview(bytes(content))
    for position, header in iter_headers(view, allow_partial=True):
        yield {
            **_header(stage, header),
            "records": [
                record._replace(timestamp=_time(stage, record.timestamp))
                for record in iter_records(view[position : position + header.size_bytes])
            ],
        }


def _header(stage: Stage, header: BatchHeader) -> dict[str, Any]:
    shown = header._asdict()
    del shown["crc"], shown["batch_length"]
    for name in ("base_timestamp", "max_timestamp"):
        shown[name] = _time(stage, shown[name])
    shown["producer_id"] = _own_id(stage, shown["producer_id"])
    return shown
