from contextlib import AsyncExitStack
from datetime import UTC, datetime

from kit.collector import attributes, collector
from pykubelet.app.tracing import trace_pods
from pykubelet.base.journal import About, work_for
from pykubelet.pod import moments as m
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.moments import Journal
from pykubelet.web.otlp import TracingSettings

WEB = About("u1", "default", "web")


async def test_nothing_is_done_when_no_traces_are_wanted() -> None:
    async with AsyncExitStack() as stack:
        journal = Journal(rule)
        assert trace_pods(TracingSettings(), "n1", journal, stack) == {}
        journal.note(m.Merged(Op.ADD, "api"), WEB)
        assert journal.traceparent() == ""
        assert not journal._readers


async def test_a_pod_gets_from_the_journal_to_a_collector() -> None:
    async with collector() as there:
        async with AsyncExitStack() as stack:
            journal = Journal(rule)
            settings = TracingSettings(endpoint=f"127.0.0.1:{there.port}", rate=1_000_000)
            assert [*trace_pods(settings, "n1", journal, stack)] == ["traces"]
            journal.note(m.Merged(Op.ADD, "api"), WEB)
            journal.note(m.Began(1, None, True), WEB)
            assert journal.traceparent() == "", "this task works for nobody"
            work_for(WEB)
            context = journal.traceparent()
            journal.note(m.StatusSet("Running", "", True, datetime.now(UTC)), WEB)
        (root,) = there.named("pod start")
        assert context == f"00-{root.trace_id.hex()}-{root.span_id.hex()}-01"
        assert attributes(root)["k8s.pod"] == "default/web"
        told = there.requests[0].resource_spans[0].resource.attributes
        assert {each.key: each.value.string_value for each in told} == {
            "service.name": "kubelet",
            "host.name": "n1",
            "k8s.node.name": "n1",
        }
