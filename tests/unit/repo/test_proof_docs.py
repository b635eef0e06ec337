"""What the simulation does and what its checker finds is in docs/proof.md, all of it."""

from __future__ import annotations

from pathlib import Path

from ottla.testing.history.anomaly import AnomalyKind
from ottla.testing.simulation.fault_kinds import KINDS

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "proof.md").read_text()


def test_every_kind_of_fault_is_told_of() -> None:
    assert [kind for kind in KINDS if f"`{kind}`" not in TEXT] == []


def test_every_anomaly_is_told_of() -> None:
    assert [kind for kind in AnomalyKind if kind not in TEXT] == []
