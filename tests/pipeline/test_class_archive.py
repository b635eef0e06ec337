"""The archive of classes with a real Java: made from a short list, and used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ottla.pipeline.run import class_archive
from ottla.pipeline.run.class_archive import ClassArchive
from ottla.pipeline.run.java import find_java

SPARK = "org/apache/spark/deploy/SparkSubmit"


def test_java_takes_classes_of_spark_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = str(find_java().path / "bin" / "java")
    class_path = f"{Path(pyspark.__file__).parent}/jars/*"
    names, made = tmp_path / "names", tmp_path / "made"
    names.write_text(f"java/lang/Object id: 0\n{SPARK} id: 1\n")
    read, write = os.pipe()
    with open(read) as stdin, open(write, "w"):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert class_archive._dump(java, class_path, names, made)
    archive = ClassArchive(tmp_path / "classes-0")
    archive.keep(made)

    options = [archive.java_options(tmp_path / "unused"), "-Xlog:class+load"]
    command = [java, *options, "-cp", class_path, SPARK.replace("/", "."), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    (line,) = [line for line in said.stdout.splitlines() if f"{SPARK} ".replace("/", ".") in line]
    assert "shared objects file" in line
