"""A collector of traces, made of OpenTelemetry's own messages: what it understands, others do, too."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"


class Collector:
    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.refuses: grpc.StatusCode | None = None
        self.port = 0

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    async def export(
        self, request: ExportTraceServiceRequest, context: "grpc.aio.ServicerContext[object, object]"
    ) -> ExportTraceServiceResponse:
        if self.refuses is not None:
            await context.abort(self.refuses, "not now")
        self.requests.append(request)
        return ExportTraceServiceResponse()


def attributes(span: Span) -> dict[str, str | int | bool]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in span.attributes}


@asynccontextmanager
async def collector(port: int = 0) -> AsyncIterator[Collector]:
    found, server = Collector(), grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        found.export,
        request_deserializer=ExportTraceServiceRequest.FromString,
        response_serializer=ExportTraceServiceResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {"Export": handler}),))
    found.port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield found
    finally:
        await server.stop(None)
