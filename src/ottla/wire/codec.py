"""Encoding and decoding of messages: codecs are compiled on first use and kept.

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
    "decoder_source",
    "encode",
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


_codecs: dict[tuple[type[Message], int], Codec[Any]] = {}


def codec(cls: type[M], version: int) -> Codec[M]:
    """The compiled codec. The data path holds on to it; elsewhere `decode` and `encode` do."""
    found = _codecs.get((cls, version))
    if found is None:
        found = _codecs[cls, version] = _compile(cls, version)
    return found


def decode(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> tuple[M, int]:
    return codec(cls, version).decode(buffer, position)


def encode(message: Message, version: int, out: list[Part]) -> None:
    codec(type(message), version).encode(message, out)


def decoder_source(cls: type[Message], version: int) -> str:
    return compile_decode.decoder_source(cls, version).text()


def encoder_source(cls: type[Message], version: int) -> str:
    return compile_encode.encoder_source(cls, version).text()


def _compile(cls: type[M], version: int) -> Codec[M]:
    if version not in cls.VERSIONS:
        raise ValueError(f"{cls.__name__} has no version {version}")
    title = f"{cls.__name__} version {version}"
    return Codec(
        compile_decode.decoder_source(cls, version).compile("decode", f"<decoder of {title}>"),
        compile_encode.encoder_source(cls, version).compile("encode", f"<encoder of {title}>"),
    )
