"""All of them, by name."""

from __future__ import annotations

from pathlib import Path

from tools.reference.compatibility import compatibility
from tools.reference.configuration import configuration

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages() -> dict[str, str]:
    return {"compatibility.md": compatibility(), "configuration.md": configuration()}
