"""A config map or a secret that a pod needs and nobody has made yet, in upstream's words."""

from typing import Literal

from pykubelet.base.errors import NotFound

ObjectKind = Literal["configmap", "secret"]


class MissingObject(NotFound):
    def __init__(self, kind: ObjectKind, name: str) -> None:
        super().__init__(f'{kind} "{name}" not found')
        self.kind: ObjectKind = kind
        self.name = name


def missing_object(error: BaseException | None) -> MissingObject | None:
    """The missing object that an error comes from, if it does."""
    while error is not None and not isinstance(error, MissingObject):
        error = error.__cause__
    return error
