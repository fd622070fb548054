"""What the agent runs against a container: probes and lifecycle hooks."""

from pykubelet.api.struct import Int32, Int64, IntOrString, Struct, written


class ExecAction(Struct, frozen=True):
    command: tuple[str, ...] = ()


class HTTPHeader(Struct, frozen=True):
    name: str = written(str)
    value: str = written(str)


class HTTPGetAction(Struct, frozen=True):
    path: str = ""
    port: IntOrString = written(int)
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Struct, frozen=True):
    port: IntOrString = written(int)
    host: str = ""


class GRPCAction(Struct, frozen=True):
    port: Int32 = written(int)
    service: str | None = None


class SleepAction(Struct, frozen=True):
    seconds: Int64 = written(int)


class Probe(Struct, frozen=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 | None = None
    timeout_seconds: Int32 | None = None
    period_seconds: Int32 | None = None
    success_threshold: Int32 | None = None
    failure_threshold: Int32 | None = None
    termination_grace_period_seconds: Int64 | None = None


class LifecycleHandler(Struct, frozen=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Struct, frozen=True):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None
