from __future__ import annotations

import subprocess
import time
from pathlib import Path
from threading import Event

import pytest

from ottla.pipeline.run import shared_log
from ottla.pipeline.run.shared_log import SharedLog


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shared_log, "_BYTES_MAX", 10)
    monkeypatch.setattr(shared_log, "_EVERY_S", 0.01)
    return tmp_path / "spark.log"


def test_all_who_have_it_open_go_on_writing_to_it(path: Path) -> None:
    """As Java does, whose standard output it is."""
    with (
        path.open("ab") as output,
        subprocess.Popen(
            "echo one; read line; echo two", shell=True, stdin=-1, stdout=output
        ) as it,
    ):
        while path.read_text() != "one\n":
            time.sleep(0.01)
        SharedLog(path).roll_if_large()
        assert path.read_text() == "one\n"
        with path.open("ab") as ours:
            ours.write(b"a line of ours\n")
            ours.flush()
            SharedLog(path).roll_if_large()
            it.communicate(b"\n")
            ours.write(b"three\n")
    assert path.read_text() == "two\nthree\n"
    assert path.with_name("spark.log.1").read_text() == "one\na line of ours\n"


def test_it_is_kept_small_until_the_end(path: Path) -> None:
    class SecondTime(Event):
        waited: list[float | None]

        def wait(self, timeout: float | None = None) -> bool:
            self.waited = [*getattr(self, "waited", []), timeout]
            return len(self.waited) > 1

    has_ended = SecondTime()
    path.write_text("much too large\n")
    SharedLog(path).keep_small(has_ended)
    assert path.read_text() == ""
    assert has_ended.waited == [0.01, 0.01]


def test_one_that_is_not_there_is_no_reason_to_fail(path: Path) -> None:
    SharedLog(path).roll_if_large()
    assert not path.exists()
