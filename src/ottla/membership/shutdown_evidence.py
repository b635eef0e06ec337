"""Whether logs of this broker may have lost their end since it was last registered.

A replica of the ISR has every committed record; the controller may make it the leader. One that has
lost some must not be. So a registration names the log dirs for which there is no evidence that they
are whole, and the controller takes the broker out of all ISRs before it counts as alive.

A log dir is whole if

- its last stop was clean (`.kafka_cleanshutdown`), or
- its last run was ended without the machine being so, and on the same device (`.ottla_run`): a kill
  leaves everything in the page cache,

and if that run was the last one that the cluster knows of (`/ottla_broker_runs/ID`): a disk that
was put back from a copy may have either mark, of an earlier run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ottla.coordination import znodes
from ottla.coordination.store import NodeExists, NoNode, Store, StoreError
from ottla.coordination.znodes import BrokerRun
from ottla.kernel.ids import BrokerId
from ottla.storage.clean_shutdown import UNKNOWN_EPOCH
from ottla.storage.folder import LogFolder
from ottla.storage.run_mark import RunMark, write_run_mark

log = logging.getLogger(__name__)


class ShutdownEvidence:
    """Owned by the broker, from start to stop. A crash may leave the marks of one run and the znode
    of the one before it: marks are written first, and may be newer."""

    def __init__(
        self, store: Store, broker_id: BrokerId, folders: Sequence[LogFolder], boot_id: str
    ) -> None:
        self._store = store
        self._path = znodes.broker_run_path(broker_id)
        self._folders = folders
        self._boot_id = boot_id
        self._keeping: asyncio.Task[None] | None = None
        self.kept_epoch = UNKNOWN_EPOCH
        """Of the registration whose run this is, once that may be written down."""

    async def unclean_log_dirs(self) -> tuple[str, ...]:
        """As the run before left them, after the logs were loaded. Those that are offline are not
        judged: nothing of them is served."""
        try:
            node = await self._store.get(self._path)
        except NoNode:
            return ()  # No controller has ever counted on this broker.
        last = znodes.decode_broker_run(self._path, node.data)
        online = {folder.path: folder for folder in self._folders if folder.failure is None}
        missing = set(last.log_dirs) - {folder.path for folder in self._folders}
        unclean = [path for path, folder in online.items() if not self._is_whole(folder, last)]
        return tuple(sorted(missing.union(unclean)))

    def _is_whole(self, folder: LogFolder, last: BrokerRun) -> bool:
        mark = folder.last_run_mark
        if folder.clean_epoch is None and mark is None and folder.path not in last.log_dirs:
            return True  # It is new, and has nothing to lose.
        if folder.clean_epoch is not None and folder.clean_epoch >= last.broker_epoch:
            return True
        return (
            mark is not None
            and mark.broker_epoch >= last.broker_epoch
            and mark.boot_id == self._boot_id
            and mark.device == folder.disk.device(folder.path)
        )

    def keep(self, broker_epoch: int) -> None:
        """For the next start: this is the run of that registration. In the background: until it is
        done, the evidence of before holds as well. Not before the controller has heard what may not
        be whole: from then on the logs count as whole again."""
        self.kept_epoch = broker_epoch
        self._keeping = asyncio.get_running_loop().create_task(
            self._keep(broker_epoch, self._keeping)
        )

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])

    async def _keep(self, broker_epoch: int, previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await asyncio.wait([previous])
        online = [folder for folder in self._folders if folder.failure is None]
        # One that fails is offline then, and has said why.
        await asyncio.wait([folder.submit(self._mark, folder, broker_epoch) for folder in online])
        run = BrokerRun(broker_epoch, tuple(folder.path for folder in self._folders))
        try:
            await self._write(znodes.encode_broker_run(run))
        except StoreError as error:
            log.warning("%s could not be written: %s", self._path, error)

    def _mark(self, folder: LogFolder, broker_epoch: int) -> None:
        mark = RunMark(broker_epoch, self._boot_id, folder.disk.device(folder.path))
        write_run_mark(folder.disk, folder.path, mark)

    async def _write(self, data: bytes) -> None:
        try:
            await self._store.set(self._path, data)
        except NoNode:
            try:
                await self._store.create(self._path, data)
            except NodeExists:  # By an attempt of before whose answer was lost.
                await self._store.set(self._path, data)
