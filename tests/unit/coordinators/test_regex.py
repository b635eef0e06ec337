from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla.coordinators.regex import check_regex, matching
from ottla.kernel.errors import ErrorCode, KafkaError


def test_an_expression_matches_whole_names() -> None:
    names = ["orders", "orders-eu", "my-orders", "other"]
    assert matching("orders.*", names) == {"orders", "orders-eu"}
    assert matching("orders", names) == {"orders"}


@pytest.mark.parametrize(
    "regex",
    [
        pytest.param("(", id="unbalanced"),
        pytest.param("(?=a)a", id="looks ahead"),
        pytest.param(r"(a)\1", id="refers back"),
        pytest.param("((a{100}){100}){100}", id="too large"),
        pytest.param("\ud800", id="no text"),
    ],
)
def test_what_re2_does_not_take_is_refused(regex: str) -> None:
    with pytest.raises(KafkaError) as raised:
        check_regex(regex)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert raised.value.message


def test_an_expression_that_makes_other_engines_hang_is_answered() -> None:
    assert matching("(a+)+b", ["a" * 249]) == frozenset()


def test_brokers_without_expressions_do_not_load_re2() -> None:
    code = (
        "import sys, ottla.coordinators.groups.consumer.protocol; "
        "assert 're2' not in sys.modules, 're2 was loaded'"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=path)
