"""What the stores share. What they promise is in tests/contract/coordination."""

from __future__ import annotations

import pytest

from ottla.coordination.store import (
    NoNode,
    StoreError,
    check_path,
    parent_of,
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
