from __future__ import annotations

import kio.schema.errors

from ottla.kernel.errors import ErrorCode, KafkaError


def test_codes_are_kafkas() -> None:
    theirs = {error.value: error.name for error in kio.schema.errors.ErrorCode}
    ours = {int(error): error.name for error in ErrorCode}
    # kio knows a release of its own, names some codes by their exception, and one of us may be
    # ahead; where both know a number they must mean the same.
    both = theirs.keys() & ours.keys()
    assert len(both) > 100
    differing = {
        number: (theirs[number], ours[number])
        for number in both
        if theirs[number].upper() != ours[number]
    }
    assert differing == {}


def test_codes_have_no_gaps() -> None:
    assert [int(error) for error in ErrorCode] == list(range(-1, len(ErrorCode) - 1))


def test_error_without_a_message_shows_its_name() -> None:
    error = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert str(error) == "OFFSET_OUT_OF_RANGE"
    assert error.message is None


def test_error_shows_its_message() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "segment.bytes must be at least 14")
    assert str(error) == "segment.bytes must be at least 14"
    assert error.code is ErrorCode.INVALID_CONFIG
