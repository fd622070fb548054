"""What the node has to do without, and since when: its container runtime, its API server."""

from typing import Final

from pykubelet.pod import moments as m
from pykubelet.pod.story.diagnosis import NodeTrouble

_NO_ANSWER: Final = "<error>"
_ENOUGH: Final = 2
"""Requests in a row without an answer: one alone may have been given up."""
_LOST: Final = ("the runtime does not answer", "the connection to the runtime")
"""What the adapter says of a runtime that is away. What a runtime itself answers may speak of any connection."""


class NodeTroubles:
    """`read` is a reader of the journal."""

    def __init__(self) -> None:
        self._runtime: m.Noted | None = None
        self._api: m.Noted | None = None
        """The first that failed since one went well."""
        self._in_vain = 0

    def read(self, noted: m.Noted) -> None:
        match noted.moment:
            case m.RuntimeCalled(error=""):
                self._runtime = None
            case m.RuntimeCalled(error=error) if any(words in error for words in _LOST):
                self._runtime = self._runtime or noted
            case m.ApiAnswered(code=code) if code == _NO_ANSWER:
                self._api, self._in_vain = self._api or noted, self._in_vain + 1
            case m.ApiAnswered():
                self._api, self._in_vain = None, 0
            case _:
                pass

    def now(self) -> NodeTrouble:
        runtime, api = self._runtime, self._api if self._in_vain >= _ENOUGH else None
        said = runtime.moment.error if runtime and isinstance(runtime.moment, m.RuntimeCalled) else ""
        host = api.moment.host if api and isinstance(api.moment, m.ApiAnswered) else ""
        return NodeTrouble(
            runtime=said,
            runtime_since=runtime.at if runtime else None,
            api=f"{host} does not answer" if host else "",
            api_since=api.at if api else None,
        )
