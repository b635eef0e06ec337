from __future__ import annotations

import subprocess
import sys

import crc32c as package
import pytest

from ottla.records.crc import crc32c


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_check_value_of_the_standard(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == 0xE3069283


def test_it_is_what_the_package_computes() -> None:
    content = bytes(range(256)) * 100
    assert crc32c(content) == package.crc32c(content)


def test_the_package_itself_is_not_imported() -> None:
    code = "import ottla.records.crc, sys; sys.exit('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
