from __future__ import annotations

import pickle

import pytest

from ottla.pipeline.source.given_options import (
    CONNECTION_OPTIONS,
    RETRY_OPTION,
    Connection,
    GivenOptions,
    OptionError,
    boolean,
    comma_separated,
    json_object,
    positive,
)


def given(**options: str) -> GivenOptions:
    return GivenOptions(options, ("topic", "includeTimestamp"))


def connection(**options: str) -> Connection:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    return Connection.parse(GivenOptions(named, (*CONNECTION_OPTIONS, RETRY_OPTION)))


def test_names_are_known_in_any_case() -> None:
    options = given(TOPIC="a", includetimestamp=" true ")
    assert options.text("topic") == "a"
    assert options.parsed("includeTimestamp", boolean) is True


def test_one_that_is_not_known_names_its_nearest() -> None:
    with pytest.raises(OptionError, match=r"option topics: is not known; did you mean topic\?"):
        given(topics="a")
    with pytest.raises(OptionError, match="remove it; there are topic, includeTimestamp"):
        given(path="a")


def test_an_error_is_the_same_in_another_process() -> None:
    error = pickle.loads(pickle.dumps(OptionError("columns", "is bad", "mend it")))
    assert (error.option, str(error)) == ("columns", "option columns: is bad; mend it")


def test_a_missing_and_a_doubled_one() -> None:
    with pytest.raises(OptionError, match="option topic: is missing"):
        given().required("topic", str)
    with pytest.raises(OptionError, match="option topic: clashes with includeTimestamp"):
        given(topic="a", includeTimestamp="true").only_one_of(("topic", "includeTimestamp"))
    assert given().only_one_of(("topic",)) is None


def test_a_connection_has_the_defaults_of_kafka_or_what_was_given() -> None:
    plain = connection(bootstrap_servers="a:1,[::1]:2")
    assert plain == Connection((("a", 1), ("::1", 2)), "ottla-pipeline", 30.0, 60.0)
    with plain.cluster() as cluster:
        assert cluster.bootstrap_servers == "a:1,::1:2"
    other = connection(
        bootstrap_servers="a:1", client_id="me", request_timeout_ms="1", default_api_timeout_ms="2"
    )
    assert other == Connection((("a", 1),), "me", 0.001, 0.002)
    with pytest.raises(OptionError, match="PLAINTEXT listener"):
        connection(bootstrap_servers="a:1", security_protocol="SSL")


def test_texts() -> None:
    assert comma_separated("b, a,,b") == ("b", "a")
    assert json_object('{"a":1}', "how") == {"a": 1}
    assert positive("7") == 7
    for parse, text in (
        (positive, "0"),
        (positive, "-1"),
        (boolean, "yes"),
        (comma_separated, ","),
    ):
        with pytest.raises(ValueError, match=r"set it to|at least one"):
            parse(text)
    for text in ("[]", "{"):
        with pytest.raises(ValueError, match="how"):
            json_object(text, "how")
