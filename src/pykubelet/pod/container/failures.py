"""Why a container cannot start yet, in upstream's words: people look for them."""

from typing import Literal

from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry

ObjectKind = Literal["configmap", "secret"]


class Unsupported(Invalid):
    """What this version cannot give. A container that needs it is not started: better not to run at all than to run
    without it."""

    def __init__(self, who: str, needs: str) -> None:
        super().__init__(f"{who} needs {needs}, which this version cannot provide yet")


class FoldersFailed(Retry):
    """The folders of a pod could not be made."""


class MountFailed(Retry):
    """A volume that could not be made. Whatever it is, it may be mended from outside: an object that is missing now may
    be there later."""

    def __init__(self, volume: str, error: PykubeletError) -> None:
        after = error.after if isinstance(error, Retry) else None
        self.volume = volume
        super().__init__(f'MountVolume.SetUp failed for volume "{volume}" : {error}', after=after)


class MissingObject(NotFound):
    """A config map or a secret that a pod needs and nobody has made yet."""

    def __init__(self, kind: ObjectKind, name: str) -> None:
        super().__init__(f'{kind} "{name}" not found')
        self.kind: ObjectKind = kind
        self.name = name


def missing_object(error: BaseException | None) -> MissingObject | None:
    """The missing object that an error comes from, if it does."""
    while error is not None and not isinstance(error, MissingObject):
        error = error.__cause__
    return error
