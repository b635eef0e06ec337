"""Pages that are made from the code are current, and the index has every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.server.apis import ANSWERED
from ottla.wire.api import APIS
from tools.reference.compatibility import CLIENTS, KAFKA_APIS, name_of, tried_tools
from tools.reference.kips import KIPS
from tools.reference.pages import DOCS, pages

ROOT = DOCS.parent


@pytest.mark.parametrize("name", pages())
def test_a_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == pages()[name], "run: .venv/bin/python -m tools.reference"


def test_every_answered_api_has_the_versions_of_kafka() -> None:
    for key in ANSWERED:
        versions = APIS[key].advertised_versions
        assert KAFKA_APIS[name_of(key)] == {
            "key": int(key),
            "versions": [versions[0], versions[-1]],
        }, name_of(key)


def test_every_kip_of_the_source_is_in_the_table() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    spoken_of = {int(number) for number in re.findall(r"KIP-(\d+)", source)}
    listed = [kip.number for kip in KIPS]
    assert sorted(spoken_of - set(listed)) == []
    assert listed == sorted(set(listed))


def test_clients_are_tried_by_tests_that_exist() -> None:
    assert [one.tests for one in CLIENTS if not (ROOT / one.tests).exists()] == []
    assert "consumer-groups" in tried_tools()


def test_the_index_has_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    listed = {(DOCS / target).resolve() for target in re.findall(r"\]\(([^):#]+\.md)\)", index)}
    assert sorted(set(DOCS.rglob("*.md")) - listed - {DOCS / "README.md"}) == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        where = page.parent / target if target else page
        assert where.exists(), f"{page.name}: {target}"
        if anchor and where.suffix == ".md":
            assert anchor in anchors(where), f"{page.name}: {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
