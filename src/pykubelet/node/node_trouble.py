"""What the node has to do without, and since when: its container runtime, its API server."""

from pykubelet.pod import moments as m
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.pod.story.texts import is_connection

_NO_ANSWER = "<error>"


class NodeTroubles:
    """`read` is a reader of the journal."""

    def __init__(self) -> None:
        self._runtime: m.Noted | None = None
        self._api: m.Noted | None = None
        """The first that failed since one went well."""

    def read(self, noted: m.Noted) -> None:
        match noted.moment:
            case m.RuntimeCalled(error=""):
                self._runtime = None
            case m.RuntimeCalled(error=error) if is_connection(error):
                self._runtime = self._runtime or noted
            case m.ApiAnswered(code=code):
                self._api = None if code != _NO_ANSWER else self._api or noted
            case _:
                pass

    def now(self) -> NodeTrouble:
        runtime, api = self._runtime, self._api
        said = runtime.moment.error if runtime and isinstance(runtime.moment, m.RuntimeCalled) else ""
        host = api.moment.host if api and isinstance(api.moment, m.ApiAnswered) else ""
        return NodeTrouble(
            runtime=said,
            runtime_since=runtime.at if runtime else None,
            api=f"{host} does not answer" if host else "",
            api_since=api.at if api else None,
        )
