"""Encoding and decoding of messages: codecs are compiled on first use and kept.

The data path asks for a `decoder` or `encoder` once and holds on to it; elsewhere `decode` and
`encode` look it up each time. Where a loop must not stand still for a large message there are
`small_decoder` with `sliced_decoder`, and `sliced_encoder`.

How the compiled functions work is told in `compile_decode` and `compile_encode`; to see one, print
`decoder_source(cls, version)`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from ottla.kernel.disk import Buffer
from ottla.kernel.transport import Part
from ottla.wire import compile_decode, compile_encode
from ottla.wire.compile_decode import Decoding, TooManyElements
from ottla.wire.primitives import MalformedMessage
from ottla.wire.schema import Message

__all__ = [
    "Codec",
    "MalformedMessage",
    "Pause",
    "SlicedDecode",
    "SlicedEncode",
    "TooManyElements",
    "codec",
    "decode",
    "decoder",
    "decoder_source",
    "encode",
    "encoder",
    "encoder_source",
    "sliced_decoder",
    "sliced_encoder",
    "small_decoder",
]

M = TypeVar("M", bound=Message)
M_co = TypeVar("M_co", bound=Message, covariant=True)
M_contra = TypeVar("M_contra", bound=Message, contravariant=True)


class Decode(Protocol[M_co]):
    def __call__(self, buffer: Buffer, position: int = 0) -> tuple[M_co, int]:
        """The message and the position behind it. Raises MalformedMessage, and nothing else."""
        ...


class Encode(Protocol[M_contra]):
    def __call__(self, message: M_contra, out: list[Part], /) -> None:
        """Appends the parts of the message. The first that it appends is always bytes."""
        ...


class Codec(NamedTuple, Generic[M]):
    decode: Decode[M]
    encode: Encode[M]


Pause = Callable[[], Awaitable[None]]
"""Lets others go first."""


class SlicedDecode(Protocol[M_co]):
    async def __call__(self, buffer: Buffer, position: int, pause: Pause, /) -> tuple[M_co, int]:
        """As `Decode`. What `buffer` is a view of must stay as it is."""
        ...


class SlicedEncode(Protocol[M_contra]):
    async def __call__(self, message: M_contra, out: list[Part], pause: Pause, /) -> None:
        """As `Encode`, in any number of parts."""
        ...


_decoders: dict[tuple[type[Message], int, Decoding], Any] = {}
_encoders: dict[tuple[type[Message], int, bool], Any] = {}


def decoder(cls: type[M], version: int) -> Decode[M]:
    return cast("Decode[M]", _decoder(cls, version, Decoding.WHOLE))


def small_decoder(cls: type[M], version: int) -> Decode[M]:
    """Raises TooManyElements for what is better decoded in slices."""
    return cast("Decode[M]", _decoder(cls, version, Decoding.SMALL))


def sliced_decoder(cls: type[M], version: int) -> SlicedDecode[M]:
    return cast("SlicedDecode[M]", _decoder(cls, version, Decoding.SLICED))


def _decoder(cls: type[Message], version: int, decoding: Decoding) -> Any:
    found = _decoders.get((cls, version, decoding))
    if found is None:
        source = compile_decode.decoder_source(cls, version, decoding)
        name = f"<{decoding.name.lower()} decoder of {cls.__name__} version {version}>"
        found = _decoders[cls, version, decoding] = source.compile("decode", name)
    return found


def encoder(cls: type[M], version: int) -> Encode[M]:
    return cast("Encode[M]", _encoder(cls, version, is_sliced=False))


def sliced_encoder(cls: type[M], version: int) -> SlicedEncode[M]:
    return cast("SlicedEncode[M]", _encoder(cls, version, is_sliced=True))


def _encoder(cls: type[Message], version: int, *, is_sliced: bool) -> Any:
    found = _encoders.get((cls, version, is_sliced))
    if found is None:
        source = compile_encode.encoder_source(cls, version, is_sliced=is_sliced)
        name = f"<encoder of {cls.__name__} version {version}>"
        found = _encoders[cls, version, is_sliced] = source.compile("encode", name)
    return found


def codec(cls: type[M], version: int) -> Codec[M]:
    """Both. A broker wants half of it only (the decoder of requests, the encoder of responses),
    and compiling the other half takes a millisecond or two."""
    return Codec(decoder(cls, version), encoder(cls, version))


def decode(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> tuple[M, int]:
    return decoder(cls, version)(buffer, position)


def encode(message: Message, version: int, out: list[Part]) -> None:
    encoder(type(message), version)(message, out)


def decoder_source(cls: type[Message], version: int) -> str:
    return compile_decode.decoder_source(cls, version).text()


def encoder_source(cls: type[Message], version: int) -> str:
    return compile_encode.encoder_source(cls, version).text()
