"""Where events go on a node without an API server: the log and the journal."""

import logging
from collections.abc import Mapping
from typing import Final, Literal

from pykubelet.api.objects import ObjectReference
from pykubelet.api.pod import Pod
from pykubelet.base.journal import About
from pykubelet.pod.moments import LONGEST_MESSAGE, EventRecorded, Journal, about

log = logging.getLogger(__name__)

Kind = Literal["Normal", "Warning"]
_LEVELS: Final[dict[Kind, int]] = {"Normal": logging.INFO, "Warning": logging.WARNING}


class LogRecorder:
    """The Recorder port of a standalone node."""

    def __init__(self, node_name: str, *, journal: Journal | None = None) -> None:
        self._node_name = node_name
        self._journal = journal or Journal()

    def event(
        self,
        pod: Pod,
        kind: Kind,
        reason: str,
        message: str,
        *,
        field_path: str = "",
        annotations: Mapping[str, str] = {},
    ) -> None:
        """A log is for people: annotations are not."""
        whose = about(pod)
        self._tell(whose, f"{whose} {field_path}" if field_path else str(whose), kind, reason, message)

    def node_event(self, kind: Kind, reason: str, message: str) -> None:
        self._tell(About(), f"node {self._node_name}", kind, reason, message)

    def object_event(self, about: ObjectReference, kind: Kind, reason: str, message: str) -> None:
        self._tell(About(), f"{about.kind} {about.namespace}/{about.name}", kind, reason, message)

    def _tell(self, whose: About, name: str, kind: Kind, reason: str, message: str) -> None:
        log.log(_LEVELS[kind], "%s: %s: %s", name, reason, message)
        self._journal.note(EventRecorded(kind, reason, message[:LONGEST_MESSAGE]), whose)
