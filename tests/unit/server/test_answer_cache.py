import asyncio

import pytest

from kit.virtual_time import virtual_time
from pykubelet.server.answer_cache import AnswerCache


class Oracle:
    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def ask(self, answers: AnswerCache[int], key: bytes, holds: float = 10.0) -> int:
        async def answer() -> int:
            self.asked.append(key)
            return len(self.asked)

        return await answers.get(key, answer, lambda _: holds)


@virtual_time
async def test_the_answer_used_longest_ago_makes_room() -> None:
    answers: AnswerCache[int] = AnswerCache(2)
    oracle = Oracle()
    await oracle.ask(answers, b"a")
    await oracle.ask(answers, b"b")
    await oracle.ask(answers, b"a")
    await oracle.ask(answers, b"c")
    assert len(answers) == 2
    assert await oracle.ask(answers, b"a") == 1
    assert await oracle.ask(answers, b"b") == 4


@virtual_time
async def test_an_answer_that_holds_for_no_time_is_not_kept() -> None:
    answers: AnswerCache[int] = AnswerCache(2)
    oracle = Oracle()
    assert await oracle.ask(answers, b"a", 0.0) == 1
    assert await oracle.ask(answers, b"a", 0.0) == 2
    assert len(answers) == 0


@virtual_time
async def test_a_failure_goes_to_all_who_wait_and_is_forgotten() -> None:
    answers: AnswerCache[int] = AnswerCache(2)
    tries = 0

    async def fail() -> int:
        nonlocal tries
        tries += 1
        await asyncio.sleep(1)
        raise ValueError("no")

    both = await asyncio.gather(*(answers.get(b"a", fail, lambda _: 1.0) for _ in range(2)), return_exceptions=True)
    assert [type(each) for each in both] == [ValueError, ValueError]
    assert tries == 1
    with pytest.raises(ValueError, match="no"):
        await answers.get(b"a", fail, lambda _: 1.0)
    assert tries == 2
