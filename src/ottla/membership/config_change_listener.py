"""Settings that were changed, as every broker of the cluster hears of them.

Whoever changes a setting writes it to `/config/...`, and with it a notification: a numbered child
of `/config/changes` that names the entity. Brokers watch these, and read what is named. So Kafka's
tools of the ZooKeeper era are heard of too.

A new topic is announced by nobody: its settings are written with it, and read when the controller
tells of it.

Of notifications the newest ones are kept. A broker that was away for so long that the last one it
knows is gone reads all settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from ottla.coordination import znodes
from ottla.coordination.store import (
    Delete,
    NoNode,
    SessionExpired,
    Store,
    StoreError,
    Watch,
)
from ottla.coordination.znodes import BadZnode
from ottla.kernel.ids import TopicId
from ottla.metadata.image import ClusterImage
from ottla.metadata.loading import config_change, load_configs

log = logging.getLogger(__name__)

RETRY_S = 1.0
CAUGHT_UP_TIMEOUT_S = 5.0
NOTIFICATIONS_KEPT = 100
READ_ONE_BY_ONE_MAX = 64
"""For more topics than that all settings are read at once."""


class ConfigChangeListener:
    """Owned by the broker, from start to stop. What it has not read when the broker dies is in the
    store at the next start."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._image: ClusterImage | None = None
        self._watch: Watch | None = None
        self._last = ""
        """The notification up to which the picture shows what they told of."""
        self._is_called = False
        self._reading: asyncio.Task[None] | None = None
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._new_topics: dict[str, TopicId] = {}
        """Whose settings were read, before the picture shows them."""
        self._unread: dict[str, None] = {}
        """Paths of settings that could not be read."""

    async def begin(self) -> None:
        """Before the settings are loaded: what is changed from here on is read after `follow`. When
        the store fails it, it may be called again."""
        if self._watch is None:
            self._watch = await self._store.watch_children(znodes.CONFIG_CHANGES, self._look)
        self._last = max(await self._store.children(znodes.CONFIG_CHANGES), default="")

    def follow(self, image: ClusterImage) -> None:
        """From here on the picture, which has all settings of before, shows what is changed."""
        self._image = image
        self._look()

    async def shows(self, path: str) -> None:
        """Waits until the picture shows what this notification tells of."""
        name = path.rpartition("/")[2]
        if name > self._last:
            shown = asyncio.get_running_loop().create_future()
            self._waiting.append((name, shown))
            self._look()
            await shown

    async def caught_up(self) -> None:
        """Waits until the picture shows what was changed so far, whoever did that. Not for a store
        that is away: the change is made all the same."""
        # Whoever asks need not be a task yet, and a time-out needs one.
        await asyncio.get_running_loop().create_task(self._catch_up())

    async def _catch_up(self) -> None:
        try:
            async with asyncio.timeout(CAUGHT_UP_TIMEOUT_S):
                newest = max(await self._store.children(znodes.CONFIG_CHANGES), default="")
                await self.shows(newest)
        except (StoreError, TimeoutError) as error:
            log.warning("settings that were changed are not to be seen here yet: %r", error)

    async def read_topics(self, topics: Mapping[str, TopicId]) -> None:
        """So that the picture has the settings of all these topics. What cannot be read now is read
        when the store is back."""
        image = self._image
        assert image is not None, "nobody tells of topics before the picture is followed"
        self._new_topics = {
            name: topic_id
            for name, topic_id in self._new_topics.items()
            if not _shows_topic(image, name, topic_id)
        }
        new = {
            name: topic_id
            for name, topic_id in topics.items()
            if not _shows_topic(image, name, topic_id) and self._new_topics.get(name) != topic_id
        }
        if not new:
            return
        self._new_topics |= new
        paths = [znodes.topic_config_path(name) for name in new]
        try:
            if len(new) <= READ_ONE_BY_ONE_MAX:
                await self._read_configs(image, paths)
            else:
                image.become_configs(await load_configs(self._store))
        except StoreError as error:
            log.warning("the settings of new topics cannot be read now: %s", error)
            self._unread |= dict.fromkeys(paths)
            self._look()

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        for _, shown in self._waiting:
            shown.cancel()

    def _look(self) -> None:
        self._is_called = True
        if self._image is not None and (self._reading is None or self._reading.done()):
            task = asyncio.get_running_loop().create_task(self._read_until_done(self._image))
            self._reading = task

    async def _read_until_done(self, image: ClusterImage) -> None:
        while self._is_called:
            self._is_called = False
            try:
                await self._read(image)
            except SessionExpired:
                return  # The next session begins with a call of each watch.
            except StoreError as error:
                log.warning("settings that were changed cannot be read now: %s", error)
                self._is_called = True
                await asyncio.sleep(RETRY_S)

    async def _read(self, image: ClusterImage) -> None:
        if self._unread:
            await self._read_configs(image, self._unread)
            self._unread.clear()
        names = await self._store.children(znodes.CONFIG_CHANGES)
        new = [name for name in names if name > self._last]
        if not new:
            return
        are_some_gone = self._last not in names if self._last else len(names) >= NOTIFICATIONS_KEPT
        paths = None if are_some_gone else await self._changed_paths(new)
        if paths is None:
            image.become_configs(await load_configs(self._store))
        else:
            await self._read_configs(image, paths)
        self._last = new[-1]
        for name, shown in self._waiting:
            if name <= self._last and not shown.done():
                shown.set_result(None)
        self._waiting = [waiting for waiting in self._waiting if not waiting[1].done()]
        await self._purge(names)

    async def _changed_paths(self, notifications: Iterable[str]) -> dict[str, None] | None:
        """Each once, in the order of the changes. None: a notification is gone already."""
        changed: dict[str, None] = {}
        for name in notifications:
            path = f"{znodes.CONFIG_CHANGES}/{name}"
            try:
                data = (await self._store.get(path)).data
                changed[znodes.decode_config_change(path, data)] = None
            except NoNode:
                return None
            except BadZnode as error:
                log.warning("a notification is passed over: %s", error)
        return changed

    async def _read_configs(self, image: ClusterImage, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                data = (await self._store.get(path)).data
            except NoNode:
                data = b""
            try:
                change = config_change(path, data)
            except BadZnode as error:
                log.warning("a change of settings is passed over: %s", error)
                continue
            if change is not None:
                image.apply_config(change)

    async def _purge(self, names: list[str]) -> None:
        if len(names) < 2 * NOTIFICATIONS_KEPT:
            return
        old = names[:-NOTIFICATIONS_KEPT]
        try:
            await self._store.multi([Delete(f"{znodes.CONFIG_CHANGES}/{name}") for name in old])
        except NoNode:
            pass  # Another broker does the same right now.


def _shows_topic(image: ClusterImage, name: str, topic_id: TopicId) -> bool:
    known = image.topics.get(name)
    return known is not None and known.id == topic_id
