import pytest

from pykubelet.base.errors import Retry
from pykubelet.pod.moments import Journal, Noted, RuntimeCalled
from pykubelet.runtime.measured import measured


async def test_a_runtime_that_cannot_do_everything_is_measured_in_what_it_can() -> None:
    @measured
    class Small:
        def __init__(self) -> None:
            self.journal = Journal()

        async def version(self) -> str:
            raise Retry("later")

    small, told = Small(), list[Noted]()
    small.journal.read_by(told.append)
    with pytest.raises(Retry):
        await small.version()
    assert [noted.moment.method for noted in told if isinstance(noted.moment, RuntimeCalled)] == ["Version"]
    assert not hasattr(small, "update_container")
