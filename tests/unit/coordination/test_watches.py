from __future__ import annotations

import asyncio

from ottla.coordination.watches import Watches


def test_many_changes_are_one_call_in_the_order_of_changes() -> None:
    async def main() -> None:
        watches = Watches()
        calls: list[str] = []
        watches.add_node("/b", lambda: calls.append("node b"))
        watches.add_node("/a", lambda: calls.append("node a"))
        watches.add_children("/", lambda: calls.append("children of /"))
        watches.mark_existence("/a")
        watches.mark_data("/b")
        watches.mark_data("/a")
        watches.call_marked()
        assert calls == []
        await asyncio.sleep(0)
        assert calls == ["node a", "children of /", "node b"]
        watches.call_marked()
        await asyncio.sleep(0)
        assert len(calls) == 3

    asyncio.run(main())


def test_cancelled_between_the_change_and_the_call_it_is_not_called() -> None:
    async def main() -> None:
        watches = Watches()
        calls: list[str] = []
        watch = watches.add_children("/a", lambda: calls.append("called"))
        watches.mark_all()
        watches.call_marked()
        watch.cancel()
        await asyncio.sleep(0)
        assert calls == []

    asyncio.run(main())


def test_what_is_watched_is_known_until_nobody_watches_it() -> None:
    watches = Watches()
    one, other = watches.add_node("/a", print), watches.add_node("/a", print)
    children = watches.add_children("/b", print)
    assert (list(watches.node_paths()), list(watches.children_paths())) == (["/a"], ["/b"])
    one.cancel()
    children.cancel()
    assert (list(watches.node_paths()), list(watches.children_paths())) == (["/a"], [])
    other.cancel()
    assert list(watches.node_paths()) == []
