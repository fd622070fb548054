"""What the memory store has beyond the promises of every store: it does not grow with its age."""

import pytest

from contract.store import watching
from kit.virtual_time import virtual_time
from pykubelet.apiserver.store import memory
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Expired


@virtual_time
async def test_old_changes_are_forgotten_by_themselves_and_the_present_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_KEPT", 10)
    store = MemoryStore()
    first = revision = await store.create("/registry/a", b"0")
    other = await store.create("/registry/b", b"1")
    for number in range(1, 100):
        revision = await store.update("/registry/a", str(number).encode(), revision=revision)
        assert len(store._log) < 20
    with pytest.raises(Expired):
        await store.list("/registry/", revision=first)
    with pytest.raises(Expired):
        await anext(store.watch("/registry/", since=other))
    recent = await store.list("/registry/", revision=revision - 9)
    assert [entry.value for entry in recent.entries] == [b"90", b"1"]
    assert [entry.value for entry in (await store.list("/registry/")).entries] == [b"99", b"1"]
    async with watching(store, "/registry/", revision - 9) as view:
        assert [event.value for event in await view.take(9)] == [str(number).encode() for number in range(91, 100)]
