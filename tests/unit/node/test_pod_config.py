import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest

from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import API_SOURCE, FILE_SOURCE, URL_SOURCE
from pykubelet.api.struct import changed
from pykubelet.node.messages import Message, Said
from pykubelet.node.pod_config import PodConfig
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed, Op, PodUpdate, Restored
from pykubelet.pod.moments import Journal, Merged, Watched
from pykubelet.pod.ports.syncer import PodSource

T0 = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)

Event = Listed | Applied | Gone


class Script:
    """A source that says what is written, with a pause before each word, and then is silent or fails."""

    def __init__(self, *events: Event, pause: float = 0.0, failures: int = 0) -> None:
        self.said = 0
        self.opened = 0
        self.closed = 0
        self._events = events
        self._pause = pause
        self._failures = failures

    async def watch(self) -> AsyncGenerator[Event, None]:
        self.opened += 1
        try:
            for event in self._events:
                await asyncio.sleep(self._pause)
                self.said += 1
                yield event
            if self.opened <= self._failures:
                raise OSError("the cable is out")
            await asyncio.sleep(1e9)
        finally:
            self.closed += 1


def pods(prefix: str, count: int) -> tuple[Listed, *tuple[Applied, ...]]:
    return Listed(()), *(Applied(make_pod(f"{prefix}{number}")) for number in range(count))


@asynccontextmanager
async def pumping(config: PodConfig, inbox: "asyncio.Queue[Message]") -> AsyncIterator[None]:
    task = asyncio.create_task(config.pump(inbox))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def config_of(sources: Mapping[str, PodSource] | None = None, journal: Journal | None = None) -> PodConfig:
    return PodConfig(sources or {}, Journal() if journal is None else journal, now=lambda: T0)


def drained(inbox: "asyncio.Queue[Message]") -> list[Said]:
    waiting = [inbox.get_nowait() for _ in range(inbox.qsize())]
    return [message for message in waiting if isinstance(message, Said)]


# --- from the sources into the inbox


@virtual_time
async def test_each_sources_events_arrive_in_their_order() -> None:
    files, api = pods("file", 50), pods("api", 50)
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    sources = {FILE_SOURCE: Script(*files, pause=0.3), API_SOURCE: Script(*api, pause=0.2)}
    async with pumping(config_of(sources), inbox):
        await eventually(lambda: inbox.qsize() == 102)
    said = drained(inbox)
    assert [each.event for each in said if each.source == FILE_SOURCE] == list(files)
    assert [each.event for each in said if each.source == API_SOURCE] == list(api)


@virtual_time
async def test_events_of_different_sources_arrive_in_the_order_of_time() -> None:
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    sources = {FILE_SOURCE: Script(*pods("file", 2), pause=2), API_SOURCE: Script(*pods("api", 2), pause=3)}
    async with pumping(config_of(sources), inbox):
        await eventually(lambda: inbox.qsize() == 6)
    order = [each.source for each in drained(inbox)]
    assert order[:3] == [FILE_SOURCE, API_SOURCE, FILE_SOURCE]  # 2 s, 3 s, 4 s; at 6 s either may be first
    assert sorted(order[3:5]) == [API_SOURCE, FILE_SOURCE]
    assert order[5] == API_SOURCE


@virtual_time
async def test_a_source_waits_while_the_inbox_is_full() -> None:
    inbox: asyncio.Queue[Message] = asyncio.Queue(3)
    source = Script(*pods("web", 20))
    async with pumping(config_of({API_SOURCE: source}), inbox):
        await asyncio.sleep(100)
        assert (source.said, inbox.qsize()) == (4, 3)  # one is in its hand
        inbox.get_nowait()
        await asyncio.sleep(100)
        assert (source.said, inbox.qsize()) == (5, 3)


@virtual_time
async def test_no_event_is_lost_to_a_full_inbox() -> None:
    inbox: asyncio.Queue[Message] = asyncio.Queue(1)
    events = pods("web", 20)
    async with pumping(config_of({API_SOURCE: Script(*events)}), inbox):
        assert [await inbox.get() for _ in events] == [Said(API_SOURCE, event) for event in events]


@virtual_time
async def test_a_source_that_fails_is_restarted_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    broken = Script(Listed(()), failures=3)
    sound = Script(*pods("web", 30), pause=1)
    async with pumping(config_of({URL_SOURCE: broken, API_SOURCE: sound}), inbox):
        await asyncio.sleep(60)
    assert (broken.opened, broken.closed) == (4, 4)
    assert (sound.opened, sound.closed, sound.said) == (1, 1, 31)
    assert [record.getMessage() for record in caplog.records].count("pod source http failed") == 3


@virtual_time
async def test_a_source_that_ends_is_restarted() -> None:
    class Ending(Script):
        async def watch(self) -> AsyncGenerator[Event, None]:
            self.opened += 1
            yield Listed(())

    inbox: asyncio.Queue[Message] = asyncio.Queue()
    source = Ending()
    async with pumping(config_of({API_SOURCE: source}), inbox):
        await eventually(lambda: source.opened == 3)
    assert drained(inbox) == [Said(API_SOURCE, Listed(()))] * source.opened


@virtual_time
async def test_cancelling_closes_every_source() -> None:
    inbox: asyncio.Queue[Message] = asyncio.Queue(1)
    sources = [Script(*pods("web", 9)), Script()]
    async with pumping(config_of({API_SOURCE: sources[0], FILE_SOURCE: sources[1]}), inbox):
        await asyncio.sleep(1)
    assert [source.closed for source in sources] == [1, 1]


# --- from the inbox to updates


def ops(updates: tuple[PodUpdate, ...]) -> list[tuple[str, str, list[str]]]:
    return [(update.op, update.source, [pod.metadata.name for pod in update.pods]) for update in updates]


def test_an_event_becomes_updates_of_its_source() -> None:
    config = config_of()
    web, db = make_pod("web"), make_pod("db")
    assert ops(config.handle(Said(FILE_SOURCE, Listed(())))) == [("ADD", FILE_SOURCE, [])]
    assert ops(config.handle(Said(API_SOURCE, Listed((web,))))) == [("ADD", API_SOURCE, ["web"])]
    assert ops(config.handle(Said(API_SOURCE, Applied(db)))) == [("ADD", API_SOURCE, ["db"])]
    assert ops(config.handle(Said(API_SOURCE, Applied(db)))) == []
    assert ops(config.handle(Said(API_SOURCE, Applied(make_pod("db", image="redis"))))) == [
        ("UPDATE", API_SOURCE, ["db"])
    ]
    assert ops(config.handle(Said(API_SOURCE, Gone("uid-db")))) == [("REMOVE", API_SOURCE, ["db"])]
    assert ops(config.handle(Said(FILE_SOURCE, Gone("uid-web")))) == []


def test_room_is_made_before_it_is_taken() -> None:
    config = config_of()
    config.handle(Said(API_SOURCE, Listed((make_pod("old"), make_pod("both")))))
    updates = config.handle(Said(API_SOURCE, Listed((make_pod("new"), make_pod("both", image="other")))))
    assert ops(updates) == [
        ("REMOVE", API_SOURCE, ["old"]),
        ("ADD", API_SOURCE, ["new"]),
        ("UPDATE", API_SOURCE, ["both"]),
    ]


def test_all_sources_are_seen_when_each_has_listed() -> None:
    config = config_of({FILE_SOURCE: Script(), API_SOURCE: Script()})
    both = (FILE_SOURCE, API_SOURCE)
    config.handle(Said(FILE_SOURCE, Listed(())))
    assert not config.merge.seen_all(both)
    config.handle(Said(API_SOURCE, Listed(())))
    assert config.merge.seen_all(both)


def test_a_second_pod_of_a_name_is_dropped_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    twins = Listed((make_pod("web", uid="1"), make_pod("web", uid="2")))
    assert ops(config_of().handle(Said(API_SOURCE, twins))) == [("ADD", API_SOURCE, ["web"])]
    (record,) = caplog.records
    assert record.getMessage() == "pod default/web (2) is ignored: source api has another of that name"


def test_who_wants_to_know_of_dropped_pods_is_told() -> None:
    dropped: list[tuple[Pod, str]] = []
    config = PodConfig({}, Journal(), on_duplicate=lambda pod, source: dropped.append((pod, source)))
    second = make_pod("web", uid="2")
    config.handle(Said(API_SOURCE, Listed((make_pod("web", uid="1"), second))))
    assert dropped == [(second, API_SOURCE)]


# --- the journal


def merges(journal: Journal, uid: str = "uid-web") -> list[Op | type]:
    """How a pod was merged, and that it was watched."""
    moments = (noted.moment for noted in journal.of(uid))
    return [moment.op if isinstance(moment, Merged) else type(moment) for moment in moments]


def test_the_journal_tells_what_became_of_a_pod() -> None:
    journal = Journal()
    config = config_of(journal=journal)
    dying = make_pod("web", image="other")
    dying = changed(dying, metadata=changed(dying.metadata, deletion_timestamp=T0))
    for event in (
        Restored((make_pod("web"),)),
        Applied(make_pod("web", image="other")),
        Applied(make_pod("web", image="other", phase="Running")),  # only the status: no moment of the pod's life
        Applied(dying),
        Gone("uid-web"),
    ):
        config.handle(Said(API_SOURCE, event))
    assert merges(journal) == [Op.RESTORE, Op.UPDATE, Op.DELETE, Op.REMOVE]
    assert {(str(noted.about), noted.at) for noted in journal.of("uid-web")} == {("default/web", T0)}
    assert journal.of("uid-web")[0].moment == Merged(Op.RESTORE, API_SOURCE)


def test_a_pod_of_the_api_that_has_never_run_was_watched_from_the_beginning() -> None:
    journal = Journal()
    config_of(journal=journal).handle(Said(API_SOURCE, Applied(make_pod("web"))))
    assert merges(journal) == [Watched, Op.ADD]


def test_a_pod_that_has_run_before_was_not() -> None:
    journal = Journal()
    pod = make_pod("web")
    pod = changed(pod, status=changed(pod.status, start_time=T0 - timedelta(hours=1)))
    config_of(journal=journal).handle(Said(API_SOURCE, Listed((pod,))))
    assert merges(journal) == [Op.ADD]


@pytest.mark.parametrize("source", [FILE_SOURCE, URL_SOURCE])
def test_nor_was_a_static_pod(source: str) -> None:
    journal = Journal()
    config_of(journal=journal).handle(Said(source, Listed((make_pod("web"),))))
    assert merges(journal) == [Op.ADD]


def test_a_pod_that_comes_again_was_watched_once() -> None:
    journal = Journal()
    config = config_of(journal=journal)
    for event in (Listed((make_pod("web"),)), Gone("uid-web"), Applied(make_pod("web")), Applied(make_pod("web"))):
        config.handle(Said(API_SOURCE, event))
    assert merges(journal) == [Watched, Op.ADD, Op.REMOVE, Op.ADD]


def test_the_empty_word_of_a_source_is_nobodys_moment() -> None:
    journal = Journal()
    (update,) = config_of(journal=journal).handle(Said(API_SOURCE, Listed(())))
    assert update == PodUpdate(Op.ADD, API_SOURCE, ())
    assert journal.of("") == ()


@virtual_time
async def test_a_source_that_has_to_wait_is_silent_until_then() -> None:
    event, inbox = asyncio.Event(), asyncio.Queue[Message]()
    config = PodConfig({API_SOURCE: Script(Listed(()))}, Journal(), after={API_SOURCE: event})
    pumping = asyncio.create_task(config.pump(inbox))
    await asyncio.sleep(60)
    assert inbox.empty()
    event.set()
    await eventually(lambda: not inbox.empty())
    pumping.cancel()
