from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from ottla.storage.errors import StorageFailure
from ottla.storage.folder import LogFolder
from tests.unit.storage.support import Machine


def _io_error() -> None:
    raise OSError(errno.EIO, "no")


def _is_slow(folder: LogFolder) -> bool:
    return folder.is_slow


def test_work_runs_in_the_order_of_submission() -> None:
    machine = Machine()
    folder = machine.folder()
    done: list[int] = []
    for number in range(50):
        folder.submit(done.append, number)
    machine.run(folder.drain())
    assert done == list(range(50))


def _no_memory() -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("failing", "reason"), [(_io_error, "[Errno 5] no"), (_no_memory, "MemoryError()")]
)
def test_nothing_runs_after_a_failure(failing: Callable[[], None], reason: str) -> None:
    machine = Machine()
    folder = machine.folder()
    done: list[int] = []
    folder.submit(done.append, 1)
    failed = folder.submit(failing)
    after = folder.submit(done.append, 2)
    machine.run(folder.drain())
    assert done == [1]
    assert str(failed.exception()) == f"log dir /data is offline: {reason}"
    assert isinstance(after.exception(), StorageFailure)
    assert machine.failed == [("/data", [])]
    with pytest.raises(StorageFailure, match="/data"):
        folder.check_online()


def test_the_first_failure_is_the_one_that_is_told() -> None:
    machine = Machine()
    folder = machine.folder()
    first = folder.fail(OSError("first"), "reading")
    assert folder.fail(OSError("second"), "writing") is first
    assert len(machine.failed) == 1


def test_a_slow_write_makes_the_folder_slow_until_a_quick_one() -> None:
    machine = Machine()
    folder = machine.folder()
    folder.wrote(0.001)
    assert not _is_slow(folder)
    folder.wrote(0.06)
    assert _is_slow(folder)
    folder.submit_write(lambda: 0.2)
    machine.wait()
    assert _is_slow(folder)
    folder.submit_write(lambda: 0.001)
    machine.wait()
    assert not _is_slow(folder)


def test_no_write_overtakes_one_that_is_queued() -> None:
    machine = Machine()
    folder = machine.folder()
    folder.submit_write(lambda: 0.001)
    assert _is_slow(folder)
    machine.wait()
    assert not _is_slow(folder)
