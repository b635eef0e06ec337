from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from ottla.server import handlers
from ottla.server.apis import ANSWERED, ANSWERED_TO_BROKERS, handler_of
from ottla.wire.api import ApiKey


@pytest.mark.parametrize("key", [*ANSWERED, *ANSWERED_TO_BROKERS], ids=lambda key: key.name)
def test_every_api_that_is_answered_has_a_handler(key: ApiKey) -> None:
    assert list(inspect.signature(handler_of(key)).parameters) == ["services", "request", "context"]


def test_every_handler_is_answered() -> None:
    (folder,) = handlers.__path__
    names = {path.stem.upper() for path in Path(folder).glob("[!_]*.py")}
    assert names == {key.name for key in (*ANSWERED, *ANSWERED_TO_BROKERS)}


def test_clients_and_brokers_are_answered_apart() -> None:
    assert not {*ANSWERED} & {*ANSWERED_TO_BROKERS}
    assert {*ANSWERED} | {*ANSWERED_TO_BROKERS} == {*ApiKey}
