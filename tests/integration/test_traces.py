"""Traces of the real agent, at a collector made of OpenTelemetry's own messages."""

import asyncio
from pathlib import Path

from kit.agent_process import Node
from kit.collector import collector
from kit.waiting import eventually

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: busybox, command: [sleep, "100"]}]
"""


async def test_a_pod_that_starts_is_one_trace_at_the_collector(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with collector() as there:
        config = tmp_path / "config.yaml"
        config.write_text(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
            f"tracing: {{endpoint: '127.0.0.1:{there.port}', samplingRatePerMillion: 1000000}}\n"
        )
        (node.manifests / "web.yaml").write_text(POD)
        try:
            with node.agent(f"--config={config}", "--stop-pods-on-exit") as agent:
                await eventually(lambda: there.named("pod start"), seconds=40)
                await asyncio.to_thread(agent.stop)
        finally:
            await asyncio.to_thread(node.remove_pods)
        (root,) = there.named("pod start")
        inside = [span for span in there.spans if span.trace_id == root.trace_id]
        assert {"syncPod", "volumes", "sandbox", "runtime.v1.RuntimeService/StartContainer"} <= {
            span.name for span in inside
        }
        known = {span.span_id for span in inside}
        assert all(span.parent_span_id in known for span in inside if span is not root and span.parent_span_id)
