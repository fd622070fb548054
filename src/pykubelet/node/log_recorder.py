"""Where events go on a node without an API server: the log and the journal."""

import logging
from typing import Final, Literal

from pykubelet.api.pod import Pod
from pykubelet.base.journal import Journal

log = logging.getLogger(__name__)

_LEVELS: Final = {"Normal": logging.INFO, "Warning": logging.WARNING}


class LogRecorder:
    """The Recorder port of a standalone node."""

    def __init__(self, node_name: str, *, journal: Journal | None = None) -> None:
        self._node_name = node_name
        self._journal = journal

    def event(
        self, pod: Pod, kind: Literal["Normal", "Warning"], reason: str, message: str, *, field_path: str = ""
    ) -> None:
        meta = pod.metadata
        self._tell(meta.uid, f"{meta.namespace}/{meta.name}", kind, reason, message, field_path)

    def node_event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._tell(self._node_name, f"node {self._node_name}", kind, reason, message)

    def _tell(self, uid: str, name: str, kind: str, reason: str, message: str, field_path: str = "") -> None:
        log.log(
            _LEVELS.get(kind, logging.INFO), "%s: %s: %s", " ".join(filter(None, (name, field_path))), reason, message
        )
        if self._journal is not None:
            self._journal.note(uid, name, "event", f"{reason}: {message}")
