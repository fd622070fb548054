"""Expressions about a write: most come to an end at once, and those that do not are begun again beside the loop."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pykubelet.apiserver.requests.beside import Beside

if TYPE_CHECKING:
    from pykubelet.apiserver.cel.program import Budget

T = TypeVar("T")


class Expressions:
    def __init__(self) -> None:
        self._beside = Beside()

    async def evaluated(self, who: str, work: "Callable[[Budget], T]") -> T:
        """What `work` makes of its expressions. It raises TooExpensive when a trial is not enough."""
        from pykubelet.apiserver.cel.program import Budget, TooExpensive  # takes long to load, and few need it

        try:
            return work(Budget.trial())
        except TooExpensive:

            async def done() -> T:
                return work(Budget())

            return await self._beside.run(who, done)
