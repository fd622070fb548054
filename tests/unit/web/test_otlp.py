import asyncio
import logging
import socket
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kit.collector import attributes, collector
from kit.ports import free_port
from kit.waiting import eventually
from pykubelet.pod.stats.traces import Span
from pykubelet.web import otlp
from pykubelet.web.otlp import Exporter, export_request

AT = datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)


def span(name: str = "syncPod", **more: object) -> Span:
    fields: dict[str, object] = {
        "trace_id": bytes(range(16)),
        "span_id": bytes(range(8)),
        "name": name,
        "start": AT,
        "end": AT + timedelta(seconds=1.5),
    }
    return Span(**fields | more)  # type: ignore[arg-type]


def test_others_read_what_is_written() -> None:
    told = {"k8s.pod.name": "web", "bytes": 1 << 40, "shared": True, "none": 0, "negative": -5}
    written = export_request(
        [span(attributes=told, error="ä went wrong", parent_id=b"p" * 8), span("call", is_call=True)],
        {"service.name": "kubelet"},
    )
    read = ExportTraceServiceRequest.FromString(written)
    assert read.resource_spans[0].resource.attributes[0].value.string_value == "kubelet"
    scope = read.resource_spans[0].scope_spans[0]
    assert scope.scope.name == "pykubelet"
    first, second = scope.spans
    assert (first.trace_id, first.span_id, first.parent_span_id) == (bytes(range(16)), bytes(range(8)), b"p" * 8)
    assert first.start_time_unix_nano == int(AT.timestamp()) * 10**9 + 123456000
    assert first.end_time_unix_nano - first.start_time_unix_nano == 1_500_000_000
    assert attributes(first) == told
    assert (first.status.code, first.status.message) == (2, "ä went wrong")
    assert (first.kind, second.kind, second.status.code) == (1, 3, 0)
    assert (
        read.SerializeToString() == ExportTraceServiceRequest.FromString(read.SerializeToString()).SerializeToString()
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "_EVERY", 0.05)


@pytest.mark.usefixtures("quick")
async def test_spans_get_to_a_collector_in_their_order() -> None:
    async with collector() as there:
        exporter = Exporter(f"127.0.0.1:{there.port}", {"service.name": "kubelet"})
        running = asyncio.create_task(exporter.run())
        for number in range(1200):
            exporter.tell(span(f"s{number}"))
        await eventually(lambda: len(there.spans) == 1200)
        assert [each.name for each in there.spans] == [f"s{number}" for number in range(1200)]
        assert max(len(each.resource_spans[0].scope_spans[0].spans) for each in there.requests) <= 512
        running.cancel()
        exporter.tell(span("last"))
        await exporter.close()
        assert there.spans[-1].name == "last"
    assert (exporter.sent, exporter.dropped) == (1201, 0)


@pytest.mark.usefixtures("quick")
async def test_a_collector_that_is_away_costs_spans_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    port = free_port()
    exporter = Exporter(f"127.0.0.1:{port}", {})
    running = asyncio.create_task(exporter.run())
    for number in range(5000):
        exporter.tell(span(f"s{number}"))
    assert exporter.dropped == 5000 - 2048
    await eventually(lambda: "does not take traces" in caplog.text)
    async with collector(port) as there:
        await eventually(lambda: len(there.spans) == 2048)
        await eventually(lambda: "takes traces again; 2952 spans were lost" in caplog.text)
    running.cancel()
    assert caplog.text.count("does not take traces") == 1
    await exporter.close()


@pytest.mark.usefixtures("quick")
async def test_what_is_refused_for_good_is_not_sent_for_ever() -> None:
    async with collector() as there:
        there.refuses = grpc.StatusCode.INVALID_ARGUMENT
        exporter = Exporter(f"127.0.0.1:{there.port}", {})
        running = asyncio.create_task(exporter.run())
        exporter.tell(span())
        await eventually(lambda: exporter.dropped == 1)
        there.refuses = None
        exporter.tell(span("next"))
        await eventually(lambda: [each.name for each in there.spans] == ["next"])
        running.cancel()
        await exporter.close()


async def test_an_agent_that_stops_does_not_wait_for_a_collector_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "_LAST_PATIENCE", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        exporter = Exporter(f"127.0.0.1:{silent.getsockname()[1]}", {})
        exporter.tell(span())
        async with asyncio.timeout(5):
            await exporter.close()
