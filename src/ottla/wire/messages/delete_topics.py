"""DeleteTopics: deletes topics and their records.

- Versions 1 to 5 name topics in a plain list.
- 4 is flexible.
- 5 has an error message (KIP-599).
- 6 has a struct for each topic, by name or by id (KIP-516).
"""

from __future__ import annotations

from ottla.kernel.ids import TopicId
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    # Null where the id is given.
    name: str | None = string(nullable="6+", default=None)
    topic_id: TopicId = uuid()


class DeleteTopicsRequest(Request, api_key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+", ignorable=False)
    topic_names: list[str] = array(string(), "1-5")
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: TopicId = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Response, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
