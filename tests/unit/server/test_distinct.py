from __future__ import annotations

from ottla.server.distinct import distinct


def test_the_first_of_each_name_is_kept_in_order() -> None:
    asked = ["beta 1", "alpha 1", "beta 2", "alpha 2", "gamma 1"]
    assert distinct(asked, lambda one: one.split()[0]) == ["beta 1", "alpha 1", "gamma 1"]
    assert distinct([], id) == []
