"""Expressions about a write: most come to an end at once, and those that do not are begun again beside the loop."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pykubelet.apiserver.requests.beside import Beside

if TYPE_CHECKING:
    from pykubelet.apiserver.admission.verdicts import Verdicts
    from pykubelet.apiserver.cel.program import Budget

T = TypeVar("T")


class Expressions:
    def __init__(self) -> None:
        self._beside = Beside()

    async def evaluated(self, who: str, verdicts: "Verdicts", work: "Callable[[Budget], T]") -> T:
        """What `work` makes of its expressions. It raises TooExpensive when a trial is not enough, and Unanswered when
        it has to know who may do something: then it is begun again."""
        from pykubelet.apiserver.cel.library_authorization import Unanswered

        while True:
            try:
                return await self._tried(who, work)
            except Unanswered as asked:
                await verdicts.find(asked.question)

    async def _tried(self, who: str, work: "Callable[[Budget], T]") -> T:
        from pykubelet.apiserver.cel.program import Budget, TooExpensive  # takes long to load, and few need it

        try:
            return work(Budget.trial())
        except TooExpensive:

            async def done() -> T:
                return work(Budget())

            return await self._beside.run(who, done)
