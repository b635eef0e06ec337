"""Encoding and decoding of messages: codecs are compiled on first use and kept.

The data path asks for a `decoder` or `encoder` once and holds on to it; elsewhere `decode` and
`encode` look it up each time.

How the compiled functions work is told in `compile_decode` and `compile_encode`; to see one, print
`decoder_source(cls, version)`."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.kernel.disk import Buffer
from ottla.kernel.transport import Part
from ottla.wire import compile_decode, compile_encode
from ottla.wire.primitives import MalformedMessage
from ottla.wire.schema import Message

__all__ = [
    "Codec",
    "MalformedMessage",
    "codec",
    "decode",
    "decoder",
    "decoder_source",
    "encode",
    "encoder",
    "encoder_source",
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


_decoders: dict[tuple[type[Message], int], Decode[Any]] = {}
_encoders: dict[tuple[type[Message], int], Encode[Any]] = {}


def decoder(cls: type[M], version: int) -> Decode[M]:
    found = _decoders.get((cls, version))
    if found is None:
        source = compile_decode.decoder_source(cls, version)
        found = source.compile("decode", f"<decoder of {cls.__name__} version {version}>")
        _decoders[cls, version] = found
    return found


def encoder(cls: type[M], version: int) -> Encode[M]:
    found = _encoders.get((cls, version))
    if found is None:
        source = compile_encode.encoder_source(cls, version)
        found = source.compile("encode", f"<encoder of {cls.__name__} version {version}>")
        _encoders[cls, version] = found
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
