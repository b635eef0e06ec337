"""From a frame to the handler of its API, and from the handler's answer to the bytes of it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from typing import Any

from ottla.kernel.eager import Done, begin
from ottla.kernel.errors import ErrorCode
from ottla.kernel.slices import let_others_run
from ottla.kernel.transport import Part
from ottla.server.apis import (
    ANSWERED,
    ANSWERED_TO_BROKERS,
    Handler,
    handler_of,
    large_handler_of,
)
from ottla.server.context import RequestContext
from ottla.server.errors import BadRequest
from ottla.server.leftovers import Leftovers
from ottla.server.repeated_produce import RepeatedProduce
from ottla.server.services import Services
from ottla.wire.api import APIS, ApiKey
from ottla.wire.codec import (
    MalformedMessage,
    TooManyElements,
    encoder,
    sliced_decoder,
    sliced_encoder,
    small_decoder,
)
from ottla.wire.header import (
    append_response,
    decode_request_header,
    prepend_response_header,
    response_header_version,
)
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.produce_heads import HEADS_SINCE

Reply = list[Part]

SHARED_FRAME_BYTES_MAX = 256 * 1024
"""The size of the receive buffer of all connections: what is larger has a buffer of its own."""


class LargeRequest:
    """One that is worked through in slices. Until it is answered none begins behind it on its
    connection, whatever it is: of a Produce, too, only a part may be appended yet."""

    __slots__ = ("reply",)

    def __init__(self, reply: asyncio.Task[Reply | None]) -> None:
        self.reply = reply


Answer = Reply | asyncio.Future[Reply | None] | LargeRequest | None
"""The reply, a promise of it, or None where the request wants none."""

_SASL = (17, 36)  # SaslHandshake, SaslAuthenticate


class Route:
    """One API in one version, compiled: everything between frame and reply.

    What is small is decoded at once; a request of more elements is worked through in slices, as is
    the response of a handler that is a coroutine, whatever was asked. One that answers at once
    answers with little."""

    __slots__ = (
        "_decode",
        "_handler",
        "_header_version",
        "_leftovers",
        "_request",
        "_response",
        "is_for_brokers",
        "key",
        "version",
    )

    def __init__(self, key: ApiKey, version: int, handler: Handler, leftovers: Leftovers) -> None:
        self.key = key
        self.version = version
        self.is_for_brokers = key in ANSWERED_TO_BROKERS
        self._request = APIS[key].request
        self._response = APIS[key].response
        self._decode = small_decoder(self._request, version)
        self._header_version = response_header_version(key, version)
        self._handler = handler
        self._leftovers = leftovers

    def call(
        self,
        services: Services,
        context: RequestContext,
        frame: memoryview,
        position: int,
        correlation_id: int,
    ) -> Answer:
        try:
            request, _ = self._decode(frame, position)
        except MalformedMessage as error:
            raise self._malformed(error) from None
        except TooManyElements:
            if len(frame) <= SHARED_FRAME_BYTES_MAX:
                frame = memoryview(bytearray(frame))
            done = begin(self._call_in_slices(services, context, frame, position, correlation_id))
            return done.value if isinstance(done, Done) else LargeRequest(done)
        answer = self._handler(services, request, context)
        if answer.__class__ is self._response:
            return self.reply(correlation_id, answer)
        if answer is None:
            return None
        replied = begin(self._reply_later(correlation_id, answer))
        return replied.value if replied.__class__ is Done else replied  # type: ignore[return-value]

    async def _call_in_slices(
        self,
        services: Services,
        context: RequestContext,
        frame: memoryview,
        position: int,
        correlation_id: int,
    ) -> Reply | None:
        try:
            decode = sliced_decoder(self._request, self.version)
            request, _ = await decode(frame, position, let_others_run)
        except MalformedMessage as error:
            raise self._malformed(error) from None
        await let_others_run()
        answer = large_handler_of(self.key)(services, request, context)
        if isinstance(answer, Awaitable):
            answer = await answer
        reply = None if answer is None else await self._reply_in_slices(correlation_id, answer)
        del (
            answer
        )  # Its elements are freed from now on: this would keep them, and free all at once.
        await self._leftovers.take(request, let_others_run)
        return reply

    def _malformed(self, error: MalformedMessage) -> BadRequest:
        return BadRequest(f"{self.key.name} v{self.version}: {error}")

    async def _reply_later(self, correlation_id: int, answer: Awaitable[Any]) -> Reply | None:
        response = await answer
        if response is None:
            return None
        return await self._reply_in_slices(correlation_id, response)

    async def _reply_in_slices(self, correlation_id: int, response: Any) -> Reply:
        parts: Reply = []
        await sliced_encoder(self._response, self.version)(response, parts, let_others_run)
        if len(parts) > 1:
            await self._leftovers.take(response, let_others_run)
        prepend_response_header(correlation_id, self._header_version, parts)
        return parts

    def reply(self, correlation_id: int, response: Any) -> Reply:
        parts: Reply = []
        encode = encoder(self._response, self.version)
        append_response(correlation_id, self._header_version, encode, response, parts)
        return parts


class Dispatcher:
    """Shared by all connections of a broker; keeps the compiled routes."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._leftovers = Leftovers()
        self._routes: dict[tuple[int, int], Route] = {}
        self._repeated: dict[bytes, RepeatedProduce] = {}  # By API key and version, as in frames.

    def dispatch(self, frame: memoryview, listener_name: str, peer_host: str) -> Answer:
        """Raises BadRequest."""
        repeated = self._repeated.get(bytes(frame[:4]))
        if repeated is None:
            return self._dispatch(frame, listener_name, peer_host)
        reply = repeated.answer(frame)
        if reply is not None:
            return reply
        answer = self._dispatch(frame, listener_name, peer_host)
        repeated.learn(frame)
        return answer

    def _dispatch(self, frame: memoryview, listener_name: str, peer_host: str) -> Answer:
        try:
            header, position = decode_request_header(frame)
        except MalformedMessage as error:
            raise BadRequest(str(error)) from None
        route = self._routes.get((header.api_key, header.api_version))
        if route is None:
            if header.api_key == ApiKey.API_VERSIONS and not _is_known_version(header.api_version):
                return self._unsupported_api_versions(header.correlation_id)
            route = self._route(header.api_key, header.api_version)
        if (
            route.is_for_brokers
            and listener_name != self._services.config.inter_broker_listener_name
        ):
            raise _unsupported(header.api_key, header.api_version)
        context = RequestContext(header.api_version, header.client_id, listener_name, peer_host)
        return route.call(self._services, context, frame, position, header.correlation_id)

    def _route(self, api_key: int, version: int) -> Route:
        if api_key in _SASL:
            raise BadRequest(
                "the client wants to log in by SASL, which is not supported yet: set "
                "security.protocol=PLAINTEXT in the client"
            )
        if api_key in ANSWERED:
            key = ApiKey(api_key)
            versions = range(APIS[key].versions.start, APIS[key].advertised_versions.stop)
        elif api_key in ANSWERED_TO_BROKERS:
            key = ApiKey(api_key)
            versions = ANSWERED_TO_BROKERS[key]
        else:
            raise _unsupported(api_key, version)
        if version not in versions:
            raise BadRequest(
                f"{key.name} v{version} is not supported, "
                f"only v{versions.start} to v{versions.stop - 1}",
                kind=f"{key.name} v{version}",
            )
        route = self._routes[api_key, version] = Route(
            key, version, handler_of(key), self._leftovers
        )
        if key == ApiKey.PRODUCE and version >= HEADS_SINCE:
            self._repeated[struct.pack(">hh", key, version)] = RepeatedProduce(
                version, self._services
            )
        return route

    def _unsupported_api_versions(self, correlation_id: int) -> Reply:
        """A client newer than this broker: it reads a v0 response, finds ApiVersions in it, and
        asks again in a version that both know (KIP-511)."""
        from ottla.server.handlers.api_versions import listed

        route = self._routes.get((ApiKey.API_VERSIONS, 0)) or self._route(ApiKey.API_VERSIONS, 0)
        return route.reply(
            correlation_id,
            ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[listed(ApiKey.API_VERSIONS)]
            ),
        )


def _unsupported(api_key: int, version: int) -> BadRequest:
    return BadRequest(
        f"API key {api_key} (version {version}) is not supported", kind=f"API {api_key}"
    )


def _is_known_version(version: int) -> bool:
    return version in APIS[ApiKey.API_VERSIONS].versions
