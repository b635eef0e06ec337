from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.pipeline.held_java import JavaDied, held_java


class Java:
    def __init__(self, died_of: str | None = None) -> None:
        self.died_of = died_of
        self.ends: list[float] = []

    def kill(self) -> None: ...

    def end(self, patience_s: float = 1.0) -> None:
        self.ends.append(patience_s)


@pytest.mark.parametrize(("patience_s", "waits_s"), [(None, 1.0), (600.0, 600.0)])
def test_what_is_held_is_ended(patience_s: float | None, waits_s: float) -> None:
    java: Any = Java()
    with held_java(patience_s) as hold:
        hold(java)
        assert java.ends == []
    assert java.ends == [waits_s]


def fail(java: Any, error: Exception) -> None:
    with held_java() as hold:
        hold(java)
        raise error


def test_a_failure_beside_a_java_that_lives_stays_what_it_is() -> None:
    java = Java()
    with pytest.raises(ValueError, match="a table is missing"):
        fail(java, ValueError("a table is missing"))
    assert java.ends == [1.0]


def test_a_failure_of_a_java_that_died_says_what_it_died_of() -> None:
    with pytest.raises(JavaDied, match=r"Java, which runs Spark, died \(signal 9\)"):
        fail(Java(died_of="signal 9"), ConnectionRefusedError(111, "Connection refused"))
