"""How far partitions are that move."""

from __future__ import annotations

import pytest

from ottla.cli.log_dirs import Replica
from ottla.cli.reassign.progress import Copied, copied_of, progress_of, shown
from ottla.client.blocking_reassignments import Reassignment

MOVING = {("clicks", 0): Reassignment((3, 1, 2), (3,), (1,))}


def test_what_the_new_replica_has_is_compared_with_the_largest_old_one() -> None:
    on_disk = [Replica(broker, "clicks", 0, size) for broker, size in ((1, 90), (2, 100), (3, 40))]
    assert copied_of(MOVING, on_disk) == {("clicks", 0): Copied(40, 100)}
    assert copied_of(MOVING, []) == {("clicks", 0): Copied(0, 0)}
    assert copied_of(MOVING, None) is None


def test_in_words() -> None:
    copied = {("clicks", 0): Copied(40, 100)}
    assert str(progress_of(3, 1, copied)) == "2 of 3 partitions moved, 60 B left"
    assert str(progress_of(3, 1, None)) == "2 of 3 partitions moved"
    assert str(progress_of(3, 0, {})) == "3 of 3 partitions moved"


def test_a_pipe_gets_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 100.0
    with shown(lambda: now_s) as show:
        show(progress_of(2, 2, None))
        now_s += 6
        show(progress_of(2, 1, None))
        show(progress_of(2, 1, None))
    assert capsys.readouterr().err == "1 of 2 partitions moved\n"


def test_a_terminal_gets_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with shown() as show:
        show(progress_of(2, 2, {("clicks", 0): Copied(0, 100)}))
        show(progress_of(2, 1, {("clicks", 0): Copied(60, 100)}))
    assert "1 of 2 partitions moved, 40 B left" in capsys.readouterr().err
