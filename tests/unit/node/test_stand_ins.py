"""Runtimes that can do without an image: when they are asked to, and what is told of it."""

from kit.virtual_time import virtual_time
from pykubelet.api.container import Container
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod.ports.runtime import Image, PullCredentials, RegistryUnreachable
from unit.node.test_pulling import IMAGE, Puller, Pulling, Ring, failure, wanting

MACHINE = Image(id="machine", names=("host",), pinned=True, built_in=True)


class Embedded(Puller):
    """`host` is built in; each pull has one of the failures, as long as there are any."""

    def __init__(self, *, stand_in: Image | None = MACHINE, failures: tuple[Retry, ...] = ()) -> None:
        super().__init__()
        self._failures = list(failures)
        self._stand_in = stand_in
        self.capabilities = changed(self.capabilities, stand_in=self._instead)

    async def _instead(self, container: Container) -> Image | None:
        return self._stand_in

    async def image(self, name: str) -> Image | None:
        return MACHINE if name == "host" else await super().image(name)

    async def pull_image(self, name: str, credentials: PullCredentials | None = None) -> Image:
        before = dict(self._images)
        image = await super().pull_image(name, credentials)
        if self._failures:
            self._images = before
            raise self._failures.pop(0)
        return image


def unreachable() -> RegistryUnreachable:
    return RegistryUnreachable("r.example cannot be reached: no route")


@virtual_time
async def test_what_is_built_in_is_never_pulled_whatever_the_policy() -> None:
    for policy in ("Always", "IfNotPresent", "Never"):
        runtime = Embedded()
        pulling = Pulling(runtime)
        assert await pulling.ensure(wanting(image="host", policy=policy)) == MACHINE
        assert runtime.tried == []
        assert pulling.events.all == [("web", "Pulled", 'Container image "host" already present on machine')]


@virtual_time
async def test_always_asks_the_registry_for_what_is_here() -> None:
    runtime = Embedded()
    pulling = Pulling(runtime)
    for _ in range(2):
        assert (await pulling.ensure(wanting())).id == f"sha256:{IMAGE}"
    assert len(runtime.tried) == 2


@virtual_time
async def test_when_nobody_answers_something_else_runs_and_one_event_says_so() -> None:
    for policy in ("Always", "IfNotPresent"):
        pulling = Pulling(Embedded(failures=(unreachable(),)))
        assert await pulling.ensure(wanting(policy=policy)) == MACHINE
        assert pulling.events.all == [
            ("web", "Pulling", f'Pulling image "{IMAGE}"'),
            (
                "web",
                "ImageNotPulled",
                f'Image "{IMAGE}" was not pulled, this machine\'s programs run instead: '
                "r.example cannot be reached: no route",
            ),
        ]


@virtual_time
async def test_where_nothing_can_stand_in_the_pull_has_failed_and_is_backed_off() -> None:
    pulling, at = Pulling(Embedded(stand_in=None, failures=(unreachable(),))), wanting()
    assert await failure(pulling, at) == ("ErrImagePull", "r.example cannot be reached: no route")
    assert (await failure(pulling, at))[0] == "ImagePullBackOff"


@virtual_time
async def test_a_registry_that_answers_has_the_last_word() -> None:
    """Also when only one of several credentials got an answer."""
    runtime = Embedded(failures=(unreachable(), Retry("denied")))
    pulling = Pulling(runtime, Ring("one", "two"))
    reason, message = await failure(pulling, wanting())
    assert reason == "ErrImagePull"
    assert "denied" in message


@virtual_time
async def test_never_waits_for_what_is_not_here() -> None:
    runtime = Embedded()
    assert (await failure(Pulling(runtime), wanting(policy="Never")))[0] == "ErrImageNeverPull"
    assert runtime.tried == []


@virtual_time
async def test_an_image_that_is_here_is_not_used_when_it_has_to_be_pulled_but_that_is_told() -> None:
    runtime = Embedded(stand_in=None)
    pulling = Pulling(runtime)
    await pulling.ensure(wanting())
    here = await runtime.image(IMAGE)
    assert here is not None
    runtime._failures = [unreachable()]
    reason, message = await failure(pulling, wanting("other"))
    assert (reason, message) == (
        "ErrImagePull",
        "r.example cannot be reached: no route; it is here, and would be used with imagePullPolicy: IfNotPresent",
    )
