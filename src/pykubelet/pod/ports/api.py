"""The API server as the agent sees it, as contracts."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal, Protocol

from pykubelet.api.objects import ConfigMap, ObjectReference, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.services import Service
from pykubelet.api.storage import ClaimedVolume
from pykubelet.pod.ports.runtime import PullCredentials


class Recorder(Protocol):
    """Where events go: an API server, or the log of a node that has none. Never waits and never fails."""

    def event(
        self,
        pod: Pod,
        kind: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        field_path: str = "",
        annotations: Mapping[str, str] = {},
    ) -> None:
        """Tell people what happened to a pod, or to the part of it at `field_path`, with one of upstream's reasons;
        programs read the `annotations`."""
        ...


class ObjectRecorder(Recorder, Protocol):
    """One that tells also of other things than pods."""

    def object_event(
        self, about: ObjectReference, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Tell people what happened to something that is neither a pod nor the node."""
        ...


class PodApi(Protocol):
    """What the agent does to pods on an API server. Raises base.errors; NotFound and Conflict mean what they say."""

    async def get(self, namespace: str, name: str) -> Pod: ...

    async def patch_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> Pod:
        """Strategic merge patch of the status. Conflict when the name belongs to a pod of another uid by now."""
        ...

    async def create(self, pod: Pod) -> Pod: ...

    async def delete(self, namespace: str, name: str, uid: str, grace: int) -> None:
        """Conflict when the name belongs to a pod of another uid by now; harmless when the pod is gone."""
        ...


class Keyring(Protocol):
    """Credentials for images from somewhere else than pull secrets, such as a cloud's own plug-in."""

    async def credentials(self, image: str, pod: Pod) -> tuple[PullCredentials, ...]:
        """Those that fit the image, the best first. Never raises: what cannot be had is told in the log."""
        ...


class PodObjects(Protocol):
    """What pods use besides themselves, of an API server or from beside their manifest: each pod sees what is meant for
    pods of its source and namespace. Raises base.errors; NotFound as upstream words it.

    An object may be some seconds old, unless it is asked for `fresh`: as it is now, for a pod that is about to start.
    One that was had before is believed for as long as the server does not answer.
    """

    def register(self, pod: Pod) -> None:
        """Keep at hand the config maps and secrets that the pod uses, until it is forgotten. May be called again."""
        ...

    def changes(self) -> AsyncGenerator[frozenset[str], None]:
        """Uids of the pods that should look at what they use, as soon as it has changed. Endless; one reader."""
        ...

    async def secret(self, pod: Pod, name: str, *, fresh: bool = False) -> Secret: ...

    async def config_map(self, pod: Pod, name: str, *, fresh: bool = False) -> ConfigMap: ...

    async def service_account_token(
        self, namespace: str, name: str, audience: str, seconds: int | None, pod: Pod
    ) -> str:
        """A token that ends with the pod. The same one for as long as it is good, then another."""
        ...

    def renewal_in(self, uid: str) -> float | None:
        """Seconds after which a token of the pod has to be asked for again; None: it has none."""
        ...

    def forget(self, uid: str) -> None:
        """The pod has ended, and its tokens with it."""
        ...

    async def services(self, namespace: str, *, wait: bool = True) -> tuple[Service, ...]:
        """Those of a namespace, and the API server's own. With `wait`, Retry when they have never been read."""
        ...


class VolumeClaims(Protocol):
    async def claimed(self, namespace: str, name: str) -> ClaimedVolume:
        """A claim, with the volume that it is bound to. Raises base.errors; Retry while it is not bound."""
        ...


class RuntimeClasses(Protocol):
    """What the names of runtime classes mean. Raises base.errors; NotFound when there is none of that name."""

    async def handler(self, name: str) -> str:
        """What the runtime calls the way to run the pods of this class."""
        ...
