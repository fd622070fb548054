"""Random operations on a store, each compared with what a dictionary and a list say about it."""

import random
from typing import Final

from contract.store import fresh_prefix, watching
from pykubelet.apiserver.store.port import AlreadyExists, Entry, Event, Expired, Stale, Store
from pykubelet.base.errors import NotFound

_STEPS: Final = 120
_NAMES: Final = ("a", "a/b", "a0", "b", "b/", "bb")


class Model:
    """All states that there were, by revision, and the changes between them."""

    def __init__(self, revision: int) -> None:
        self.now: dict[str, Entry] = {}
        self.states: dict[int, dict[str, Entry]] = {revision: {}}
        self.events: list[Event] = []
        self.compacted = 0

    def note(self, event: Event) -> None:
        self.now = {key: entry for key, entry in self.now.items() if key != event.key}
        if event.kind == "put":
            self.now[event.key] = Entry(event.key, event.value, event.revision, event.created)
        self.states[event.revision] = self.now
        self.events.append(event)

    def below(self, prefix: str, revision: int) -> list[Entry]:
        state = self.states[max(known for known in self.states if known <= revision)]
        return [state[key] for key in sorted(state) if key.startswith(prefix)]


async def run_model(store: Store, seed: int) -> None:
    draw = random.Random(seed)
    prefix = fresh_prefix()
    since = await store.revision()
    model = Model(since)
    for _ in range(_STEPS):
        key = prefix + draw.choice(_NAMES)
        match draw.choices(("create", "update", "delete", "list", "watch", "compact"), (5, 8, 4, 5, 2, 0.5))[0]:
            case "create":
                await _create(store, model, key, draw.randbytes(draw.randrange(20)))
            case "update":
                await _change(store, model, key, draw.randbytes(5), draw.random() < 0.2)
            case "delete":
                await _change(store, model, key, None, draw.random() < 0.2)
            case "list":
                await _list(store, model, prefix + draw.choice(("", "a", "b/", "zz")), draw)
            case "watch":
                await _watch(store, model, prefix, draw)
            case "compact":
                model.compacted = draw.choice(sorted(model.states))
                await store.compact(model.compacted)
                model.states = {at: held for at, held in model.states.items() if at >= model.compacted}
    assert list((await store.list(prefix)).entries) == model.below(prefix, max(model.states))


async def _create(store: Store, model: Model, key: str, value: bytes) -> None:
    held = model.now.get(key)
    try:
        revision = await store.create(key, value)
    except AlreadyExists as error:
        found: Entry | None = error.entry
    else:
        found = None
        model.note(Event("put", key, value, None, revision, revision))
    assert found == held


async def _change(store: Store, model: Model, key: str, value: bytes | None, is_stale: bool) -> None:
    held = model.now.get(key)
    revision = (held.revision if held else 3) - is_stale
    try:
        if value is None:
            gone = await store.delete(key, revision=revision)
            at = gone.revision
        else:
            at = await store.update(key, value, revision=revision)
    except NotFound:
        assert held is None
        return
    except Stale as error:
        found, was_stale = error.entry, True
    else:
        assert held is not None
        found, was_stale = held, False
        model.note(Event("put" if value is not None else "delete", key, value or b"", held.value, at, held.created))
    assert (found, was_stale) == (held, is_stale)


async def _list(store: Store, model: Model, prefix: str, draw: random.Random) -> None:
    revision = draw.choice((0, *model.states))
    limit = draw.choice((0, 0, 1, 2, 3))
    wanted = model.below(prefix, revision or max(model.states))
    page = await store.list(prefix, limit=limit, revision=revision)
    found = list(page.entries)
    while page.more:
        assert page.remaining == len(wanted) - len(found)
        page = await store.list(prefix, limit=limit, start_key=page.next_key, revision=page.revision)
        found += page.entries
    assert found == wanted


async def _watch(store: Store, model: Model, prefix: str, draw: random.Random) -> None:
    since = draw.choice(sorted(model.states))
    wanted = [event for event in model.events if event.revision > since]
    try:
        async with watching(store, prefix, since) as view:
            assert await view.take(len(wanted)) == wanted
    except Expired:
        assert since < model.compacted
