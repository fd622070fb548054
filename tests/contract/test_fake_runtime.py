import pytest

from contract.runtime import PROMISES, Promise
from kit.fake_runtime import STUBBORN, FakeRuntime
from kit.virtual_time import virtual_time


class InMemory:
    """Programs that exist only in name."""

    def __init__(self) -> None:
        self.runtime = FakeRuntime()

    def program(self) -> tuple[str, ...]:
        return ("program",)

    def stubborn(self) -> tuple[str, ...]:
        return (STUBBORN,)

    async def settled(self) -> None:
        pass

    async def end(self, uid: str, name: str, code: int) -> None:
        self.runtime.exit(uid, name, code)

    async def restarted(self) -> FakeRuntime:
        return self.runtime


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_fake_runtime_keeps_its_promises(promise: Promise) -> None:
    @virtual_time
    async def story() -> None:
        await promise(InMemory())

    story()
