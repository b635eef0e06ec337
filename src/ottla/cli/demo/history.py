"""How much was written and read, over the time of the demo."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

_SAMPLE_S = 1.0
_RATE_WINDOW_S = 5.0
_SAMPLES_MAX = 3600


class Rate(NamedTuple):
    """Records a second, at a time since the start."""

    at_s: float
    written: float
    read: float


class History:
    """Takes counts as often as the view is drawn, and keeps one a second, of the last hour."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int, int]] = deque([(0.0, 0, 0)])
        self._kept: deque[Rate] = deque(maxlen=_SAMPLES_MAX)

    def add(self, at_s: float, written: int, read: int) -> None:
        self._recent.append((at_s, written, read))
        while len(self._recent) > 2 and at_s - self._recent[0][0] > _RATE_WINDOW_S:
            self._recent.popleft()
        if not self._kept or at_s - self._kept[-1].at_s >= _SAMPLE_S:
            self._kept.append(self.now())

    def now(self) -> Rate:
        """Over the last seconds: a batch comes as a whole."""
        (then_s, written_before, read_before), (at_s, written, read) = (
            self._recent[0],
            self._recent[-1],
        )
        elapsed_s = at_s - then_s
        if elapsed_s <= 0:
            return Rate(at_s, 0.0, 0.0)
        return Rate(at_s, (written - written_before) / elapsed_s, (read - read_before) / elapsed_s)

    def rates(self) -> list[Rate]:
        return list(self._kept)
