from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from ottla.pipeline.rows.columns import COLUMNS, bitmap, cut, schema


def test_names_and_types_are_those_of_sparks_own_connector() -> None:
    assert {field.name: str(field.type) for field in schema(COLUMNS)} == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp[us, tz=UTC]",
        "timestampType": "int32",
        "headers": "list<element: struct<key: string, value: binary>>",
    }
    assert schema(["offset", "key"]).names == ["offset", "key"]


def test_a_column_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="no column 'keys'; there are key, value, topic"):
        schema(["keys"])


def test_pieces_are_cut_out() -> None:
    starts, ends = np.array([1, 4, 4, 9]), np.array([3, 4, 8, 12])
    data = pa.py_buffer(b"_ab_cdef_ghi_")
    assert cut(data, starts, ends).to_pylist() == [b"ab", b"", b"cdef", b"ghi"]
    is_valid = np.array([True, False, True, True])
    found = cut(data, starts, ends, is_valid)
    found.validate(full=True)
    assert found.to_pylist() == [b"ab", None, b"cdef", b"ghi"]
    assert cut(data, starts[:0], ends[:0]).to_pylist() == []


def test_no_bitmap_where_nothing_is_null() -> None:
    assert bitmap(np.ones(3, np.bool_)) is None
    found = bitmap(np.array([True] * 8 + [False, True]))
    assert found is not None
    assert found.to_pybytes() == bytes([0xFF, 0b10])


def test_pandas_is_not_imported_for_it() -> None:
    code = (
        "import sys, numpy as np, pyarrow as pa\n"
        "from ottla.pipeline.rows.columns import cut, fixed\n"
        "cut(pa.py_buffer(b'abc'), np.array([0]), np.array([2]))\n"
        "assert fixed(np.array([1, 2])).to_pylist() == [1, 2]\n"
        "assert 'pandas' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
