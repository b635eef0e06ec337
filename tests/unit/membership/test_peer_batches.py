from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.membership.peer_batches import QUESTIONS_MAX, PeerBatches
from ottla.testing.loop import VirtualLoop, run_virtual

ONE, TWO = BrokerId(1), BrokerId(2)


class Sent:
    """Requests take a second, and answer each question with itself in capitals."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, list[str]]] = []
        self.failure: Exception | None = None
        self.batches = PeerBatches[str, str](self.send, key_of=lambda question: question[0])

    async def send(self, broker_id: BrokerId, questions: Sequence[str]) -> list[str]:
        self.requests.append((broker_id, list(questions)))
        await asyncio.sleep(1)
        if self.failure is not None:
            raise self.failure
        return [question.upper() for question in questions]

    def ask(self, question: str, broker_id: BrokerId = ONE) -> asyncio.Task[str]:
        return asyncio.get_running_loop().create_task(self.batches.ask(broker_id, question))


def test_what_comes_while_a_request_is_on_its_way_goes_with_the_next() -> None:
    async def main(loop: VirtualLoop) -> None:
        sent = Sent()
        first = sent.ask("a")
        await asyncio.sleep(0.5)
        others = [sent.ask("b"), sent.ask("c"), sent.ask("d", TWO)]
        assert await asyncio.gather(first, *others) == ["A", "B", "C", "D"]
        assert sent.requests == [(1, ["a"]), (2, ["d"]), (1, ["b", "c"])]
        assert await sent.ask("e") == "E"

    run_virtual(main)


def test_questions_with_one_key_are_not_asked_together() -> None:
    async def main(loop: VirtualLoop) -> None:
        sent = Sent()
        asked = [sent.ask(question) for question in ("a1", "b1", "a2", "a3")]
        assert await asyncio.gather(*asked) == ["A1", "B1", "A2", "A3"]
        assert [questions for _, questions in sent.requests] == [["a1", "b1"], ["a2"], ["a3"]]

    run_virtual(main)


def test_a_request_has_no_more_than_a_bounded_number_of_questions() -> None:
    async def main(loop: VirtualLoop) -> None:
        sent = Sent()
        asked = [sent.ask(chr(0x4E00 + number)) for number in range(QUESTIONS_MAX + 1)]
        await asyncio.gather(*asked)
        assert [len(questions) for _, questions in sent.requests] == [QUESTIONS_MAX, 1]

    run_virtual(main)


@pytest.mark.parametrize(
    "failure", [KafkaError(ErrorCode.NETWORK_EXCEPTION, "away"), ValueError("a bug")]
)
def test_a_request_that_fails_is_the_answer_to_all_that_went_with_it(failure: Exception) -> None:
    async def main(loop: VirtualLoop) -> None:
        sent = Sent()
        sent.failure = failure
        asked = [sent.ask(question) for question in ("a", "b")]
        for task in asked:
            with pytest.raises(type(failure), match=str(failure)):
                await task
        sent.failure = None
        assert await sent.ask("c") == "C"

    run_virtual(main)


def test_who_has_gone_is_not_asked_for() -> None:
    async def main(loop: VirtualLoop) -> None:
        sent = Sent()
        first, gone, last = sent.ask("a"), sent.ask("a2"), sent.ask("a3")
        await asyncio.sleep(0.5)
        gone.cancel()
        assert list(await asyncio.gather(first, last)) == ["A", "A3"]
        assert [questions for _, questions in sent.requests] == [["a"], ["a3"]]

    run_virtual(main)
