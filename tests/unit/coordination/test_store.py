"""What the stores share. What they promise is in tests/contract/coordination."""

from __future__ import annotations

import pytest

from ottla.coordination.store import (
    BATCH_BYTES_MAX,
    Check,
    Delete,
    NoNode,
    Set,
    StoreError,
    check_path,
    in_batches,
    parent_of,
    size_bytes,
    with_parents,
)


@pytest.mark.parametrize(("path", "parent"), [("/a", "/"), ("/a/b", "/a"), ("/a/b/c", "/a/b")])
def test_parents(path: str, parent: str) -> None:
    assert parent_of(path) == parent


def test_all_parents_come_first() -> None:
    assert with_parents("/a/b/c") == ["/a", "/a/b", "/a/b/c"]
    assert with_parents("/a") == ["/a"]


@pytest.mark.parametrize("path", ["/", "/a", "/a/b.c/<default>"])
def test_good_paths(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize("path", ["", "a", "//", "/a/", "/a//b", "/a/../b", "/."])
def test_bad_paths_are_a_bug_of_ours(path: str) -> None:
    with pytest.raises(AssertionError):
        check_path(path)


def test_errors_name_the_node() -> None:
    error = NoNode("/a")
    assert isinstance(error, StoreError)
    assert (error.path, str(error)) == ("/a", "NoNode: /a")
    assert str(NoNode("/a", "gone since")) == "gone since"


def test_batches_hold_everything_once_and_in_order() -> None:
    check = Check("/epoch", 3)
    operations = [Set(f"/{number}", bytes(number)) for number in range(0, 200_000, 10_000)]
    batches = list(in_batches(operations, check))
    assert [each for batch in batches for each in batch[1:]] == operations
    assert {batch[0] for batch in batches} == {check}
    assert max(map(size_bytes, batches)) <= BATCH_BYTES_MAX
    assert len(batches) == 5


def test_one_that_is_larger_than_a_batch_is_alone() -> None:
    check = Check("/epoch", 3)
    small, large = Delete("/a"), Set("/b", bytes(BATCH_BYTES_MAX))
    assert list(in_batches([small, large, small], check)) == [
        [check, small],
        [check, large],
        [check, small],
    ]
    assert list(in_batches([], check)) == []
