"""The wiring of traces: a reader of the journal on one side, a collector on the other; nothing when none is wanted."""

import secrets
from contextlib import AsyncExitStack

from pykubelet.base.journal import working_for
from pykubelet.base.tasks import Work
from pykubelet.pod.moments import Journal
from pykubelet.pod.stats.traces import PodTraces
from pykubelet.web.otlp import Exporter, TracingSettings


def trace_pods(settings: TracingSettings, node: str, journal: Journal, stack: AsyncExitStack) -> dict[str, Work]:
    """-> what has to run, by name. Until the stack is unwound."""
    if not settings.rate:
        return {}
    exporter = Exporter(settings.endpoint, {"service.name": "kubelet", "host.name": node, "k8s.node.name": node})
    traces = PodTraces(settings.rate, secrets.token_bytes, exporter.tell)
    journal.read_by(traces.read)
    journal.traceparent = lambda: traces.context(working_for().uid)
    stack.push_async_callback(exporter.close)
    return {"traces": exporter.run}
