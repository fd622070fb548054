"""Pulling one image: whose credentials are tried, what is told, who shares with whom."""

import asyncio
import base64
import json

from kit.fake_runtime import FakeRuntime
from kit.node import Events, loop_clock
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from pykubelet.api.meta import LocalObjectReference
from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.images import ImagePullSettings, Images
from pykubelet.node.not_started import NotStarted
from pykubelet.pod.moments import Journal, Noted, PullBegun, PullEnded, PullProgressed
from pykubelet.pod.ports.runtime import Image, PullCredentials

IMAGE = "r.example/app:1"

Pulls = PullBegun | PullProgressed | PullEnded


class Puller(FakeRuntime):
    """Takes one password, if any."""

    def __init__(self, password: str | None = None) -> None:
        super().__init__()
        self.password = password
        self.tried: list[str | None] = []
        self.most = self.now_pulling = 0

    async def pull_image(self, name: str, credentials: PullCredentials | None = None) -> Image:
        self.tried.append(credentials.password if credentials else None)
        self.now_pulling += 1
        self.most = max(self.most, self.now_pulling)
        try:
            image = await super().pull_image(name, credentials)
        finally:
            self.now_pulling -= 1
        if self.password is not None and self.tried[-1] != self.password:
            raise Retry(f"not authorized with {self.tried[-1]}")
        return image


class Ring:
    def __init__(self, *passwords: str) -> None:
        self.passwords = passwords
        self.asked: list[str] = []

    async def credentials(self, image: str, pod: Pod) -> tuple[PullCredentials, ...]:
        self.asked.append(image)
        return tuple(PullCredentials(username="u", password=each) for each in self.passwords)


class Pulling:
    def __init__(self, runtime: Puller, ring: Ring | None = None, settings: ImagePullSettings | None = None) -> None:
        now = loop_clock()
        self.events = Events()
        self.journal = Journal(now=now)
        self.images = Images(
            runtime, self.events, self.journal, self._secrets, now=now, keyring=ring, settings=settings
        )
        self.secrets_asked = 0

    async def ensure(self, pod: Pod) -> Image:
        return await self.images.ensure(pod, pod.spec.containers[0])

    async def _secrets(self, pod: Pod) -> tuple[Secret, ...]:
        self.secrets_asked += 1
        return tuple(secret(reference.name) for reference in pod.spec.image_pull_secrets)


def secret(password: str) -> Secret:
    auth = base64.b64encode(f"u:{password}".encode()).decode()
    data = json.dumps({"auths": {"r.example": {"auth": auth}}}).encode()
    return Secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": data})


def wanting(name: str = "web", image: str = IMAGE, policy: str = "Always", passwords: tuple[str, ...] = ()) -> Pod:
    """A pod whose pull secrets are called like the passwords in them."""
    pod = make_pod(name, image=image)
    container = changed(pod.spec.containers[0], image_pull_policy=policy)
    secrets = tuple(LocalObjectReference(name=password) for password in passwords)
    return changed(pod, spec=changed(pod.spec, containers=(container,), image_pull_secrets=secrets))


async def failure(pulling: Pulling, at: Pod) -> tuple[str, str]:
    try:
        await pulling.ensure(at)
    except NotStarted as error:
        return error.waiting.reason, error.waiting.message
    raise AssertionError("it was pulled")


@virtual_time
async def test_pull_secrets_are_tried_before_the_keyring_and_each_in_its_order() -> None:
    runtime, ring = Puller("ring-2"), Ring("ring-1", "ring-2", "ring-3")
    await Pulling(runtime, ring).ensure(wanting(passwords=("secret-1", "secret-2")))
    assert runtime.tried == ["secret-1", "secret-2", "ring-1", "ring-2"]
    assert ring.asked == [IMAGE]


@virtual_time
async def test_without_any_credentials_the_pull_is_tried_without() -> None:
    runtime = Puller()
    await Pulling(runtime, Ring()).ensure(wanting())
    assert runtime.tried == [None]


@virtual_time
async def test_neither_pull_secrets_nor_the_keyring_are_asked_for_an_image_that_is_here_or_waits() -> None:
    runtime, ring = Puller("right"), Ring("wrong")
    pulling, at = Pulling(runtime, ring), wanting()
    await failure(pulling, at)
    assert await failure(pulling, at)
    assert len(ring.asked) == pulling.secrets_asked == 1
    runtime.password = None
    await runtime.pull_image("here:1")
    await pulling.ensure(wanting(image="here:1", policy="IfNotPresent"))
    assert len(ring.asked) == pulling.secrets_asked == 1


@virtual_time
async def test_a_pull_that_fails_tells_everything_but_the_secrets() -> None:
    runtime = Puller("right")
    pulling, at = Pulling(runtime, Ring("wrong-two")), wanting(passwords=("wrong-one",))
    said = "not authorized with [hidden]"
    assert await failure(pulling, at) == ("ErrImagePull", said)
    assert pulling.events.all == [
        ("web", "Pulling", f'Pulling image "{IMAGE}"'),
        ("web", "Failed", f'Failed to pull image "{IMAGE}": {said}'),
        ("web", "Failed", "Error: ErrImagePull"),
    ]


@virtual_time
async def test_who_waits_for_the_next_try_says_why() -> None:
    runtime = Puller()
    pulling, at = Pulling(runtime), wanting()
    runtime.failures["pull_image"] = [Retry("RegistryUnavailable: it is away"), Retry("no such image")]
    why = f"image pull failed for {IMAGE} because the registry is unavailable: it is away"
    assert await failure(pulling, at) == ("RegistryUnavailable", why)
    assert await failure(pulling, at) == (
        "ImagePullBackOff",
        f'Back-off pulling image "{IMAGE}": RegistryUnavailable: {why}',
    )
    assert pulling.events.all[-2:] == [
        ("web", "BackOff", f'Back-off pulling image "{IMAGE}"'),
        ("web", "Failed", "Error: ImagePullBackOff"),
    ]
    await asyncio.sleep(11)
    assert await failure(pulling, at) == ("ErrImagePull", "no such image")
    assert await failure(pulling, at) == (
        "ImagePullBackOff",
        f'Back-off pulling image "{IMAGE}": ErrImagePull: no such image',
    )
    await asyncio.sleep(21)
    await pulling.ensure(at)
    assert pulling.images._backoffs[at.metadata.uid].failures == {}
    pulling.images.forget(at.metadata.uid)
    assert pulling.images._backoffs == {}


@virtual_time
async def test_an_image_that_is_always_pulled_is_not_looked_for_first() -> None:
    runtime = Puller()
    runtime.failures["image"] = [Retry("busy")]
    await Pulling(runtime).ensure(wanting())
    reason, message = await failure(Pulling(runtime), wanting(policy="IfNotPresent"))
    assert (reason, message) == ("ImageInspectError", f'Failed to inspect image "{IMAGE}": busy')


@virtual_time
async def test_a_pod_gets_no_image_through_anothers_credentials_when_it_has_to_ask_itself() -> None:
    runtime = Puller("right")
    runtime.delays["pull_image"] = 5
    pulling = Pulling(runtime)
    allowed = asyncio.create_task(pulling.ensure(wanting("allowed", passwords=("right",))))
    await asyncio.sleep(1)
    same = asyncio.create_task(pulling.ensure(wanting("same", passwords=("right",))))
    other = asyncio.create_task(failure(pulling, wanting("other", passwords=("wrong",))))
    nobody = asyncio.create_task(failure(pulling, wanting("nobody")))
    await asyncio.gather(allowed, same)
    assert (await other)[0] == (await nobody)[0] == "ErrImagePull"
    assert runtime.tried == ["right", "wrong", None]


@virtual_time
async def test_serial_pulls_go_one_after_the_other_and_tell_how_long_they_waited() -> None:
    runtime = Puller()
    runtime.delays["pull_image"] = 5
    pulling = Pulling(runtime, settings=ImagePullSettings(serialize=True))
    await asyncio.gather(*(pulling.ensure(wanting(name, f"{name}:1")) for name in ("a", "b")))
    assert runtime.most == 1
    told = [message for _, reason, message in pulling.events.all if reason == "Pulled"]
    assert told == [
        'Successfully pulled image "a:1" in 5s (5s including waiting). Image size: 1 bytes.',
        'Successfully pulled image "b:1" in 5s (10s including waiting). Image size: 1 bytes.',
    ]


@virtual_time
async def test_a_registry_is_not_asked_more_often_than_allowed() -> None:
    pulling, loop = Pulling(Puller(), settings=ImagePullSettings(qps=0.5, burst=2)), asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(pulling.ensure(wanting(name, f"{name}:1")) for name in "abc"))
    assert loop.time() - began == 2.0  # two at once, and the third when its turn comes


@virtual_time
async def test_a_long_pull_is_told_of_in_the_journal_until_it_ends() -> None:
    runtime = Puller()
    runtime.delays["pull_image"] = 200.5
    pulling, at = Pulling(runtime), wanting()
    noted: list[Noted] = []
    pulling.journal.read_by(noted.append)
    await pulling.ensure(at)
    await asyncio.sleep(500)
    begun, *told, ended = [each.moment for each in noted if isinstance(each.moment, Pulls)]
    assert begun == PullBegun(IMAGE)
    so_far = [round(each.seconds) for each in told if isinstance(each, PullProgressed)]
    assert so_far == [10, 20, 30, 40, 50, 60, 120, 180]
    assert isinstance(ended, PullEnded)
    assert 200 < ended.seconds < 201
    assert (ended.is_shared, ended.error) == (False, "")


@virtual_time
async def test_a_pull_that_is_cancelled_is_not_told_of_any_more_and_nothing_is_kept() -> None:
    runtime = Puller()
    runtime.delays["pull_image"] = 200
    pulling, at = Pulling(runtime), wanting()
    noted: list[Noted] = []
    pulling.journal.read_by(noted.append)
    task = asyncio.create_task(pulling.ensure(at))
    await asyncio.sleep(15)
    task.cancel()
    await asyncio.sleep(100)
    kinds = [type(each.moment) for each in noted if isinstance(each.moment, Pulls)]
    assert kinds == [PullBegun, PullProgressed, PullEnded]
    assert pulling.images._turns == {}
