"""A line of a trace: when, where, and what. It imports nothing, so that whoever only shows a trace
does not need a broker."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

FAULTS, STORE = "faults", "store"
"""Hosts besides those of brokers and clients."""


class Mark(StrEnum):
    """What kind of thing happened."""

    FAULT = "fault"
    STARTS = "starts"
    RUNS = "runs"
    """A broker has started, or goes on after a pause."""
    PAUSED = "paused"
    STOPS = "stops"
    """It was told to, and is not done."""
    ENDED = "ended"
    CONTROLLER = "controller"
    LEADER = "leader"
    """A partition has another leader, or none."""
    ISR = "ISR"
    ROLE = "role"
    """A broker leads, follows, truncates or stops; also as controller."""
    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    READ = "read"
    TRANSACTION = "transaction"
    GROUP = "group"
    RETRY = "retry"
    OTHER = "other"
    LOG = "log"
    PROBLEM = "problem"


class Entry(NamedTuple):
    time_s: float
    host: str
    mark: Mark
    text: str

    def __str__(self) -> str:
        return f"{self.time_s:11.6f}  {self.host:<10}  {self.mark:<12}  {self.text}"
