"""Probes and lifecycle hooks."""

from collections.abc import Mapping
from typing import Final

from pykubelet.api.field_errors import forbidden, invalid, not_supported, required
from pykubelet.api.handlers import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from pykubelet.api.struct import IntOrString
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors, Scope
from pykubelet.api.validation.rules import filled, not_negative, one_of, spelled

_Action = ExecAction | HTTPGetAction | TCPSocketAction | GRPCAction | SleepAction

_SIGNALS: Final = frozenset(
    f"SIG{name}"
    for name in (
        *(
            "ABRT",
            "ALRM",
            "BUS",
            "CHLD",
            "CLD",
            "CONT",
            "FPE",
            "HUP",
            "ILL",
            "INT",
            "IO",
            "IOT",
            "KILL",
            "PIPE",
            "POLL",
        ),
        *(
            "PROF",
            "PWR",
            "QUIT",
            "SEGV",
            "STKFLT",
            "STOP",
            "SYS",
            "TERM",
            "TRAP",
            "TSTP",
            "TTIN",
            "TTOU",
            "URG",
            "USR1",
        ),
        *("USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN", "RTMAX"),
        *(f"RTMIN+{number}" for number in range(1, 16)),
        *(f"RTMAX-{number}" for number in range(1, 15)),
    )
)
_WINDOWS_SIGNALS: Final = ("SIGKILL", "SIGTERM")


def validate_liveness_probe(probe: Probe | None, path: str) -> Errors:
    """Also for startup probes: one success is all that either can be asked for."""
    if probe is None:
        return
    yield from _probe(probe, path)
    if probe.success_threshold != 1:
        yield invalid(
            f"{path}.successThreshold", probe.success_threshold or 0, "must be 1 for liveness and startup probes"
        )


def validate_readiness_probe(probe: Probe | None, path: str) -> Errors:
    if probe is None:
        return
    yield from _probe(probe, path)
    if probe.termination_grace_period_seconds is not None:
        yield invalid(
            f"{path}.terminationGracePeriodSeconds",
            probe.termination_grace_period_seconds,
            "must not be set for a readiness probe, which stops nothing",
        )


def validate_lifecycle(lifecycle: Lifecycle | None, path: str, scope: Scope) -> Errors:
    if lifecycle is None:
        return
    if lifecycle.post_start is not None:
        yield from _hook(lifecycle.post_start, f"{path}.postStart", scope)
    if lifecycle.pre_stop is not None:
        yield from _hook(lifecycle.pre_stop, f"{path}.preStop", scope)
    if lifecycle.stop_signal is not None:
        yield from _stop_signal(lifecycle.stop_signal, f"{path}.stopSignal", scope.os)


def _probe(probe: Probe, path: str) -> Errors:
    actions = {"exec": probe.exec, "httpGet": probe.http_get, "tcpSocket": probe.tcp_socket, "grpc": probe.grpc}
    yield from _exactly_one(actions, path, None)
    yield from not_negative(f"{path}.initialDelaySeconds", probe.initial_delay_seconds)
    yield from not_negative(f"{path}.timeoutSeconds", probe.timeout_seconds)
    yield from not_negative(f"{path}.periodSeconds", probe.period_seconds)
    yield from not_negative(f"{path}.successThreshold", probe.success_threshold)
    yield from not_negative(f"{path}.failureThreshold", probe.failure_threshold)
    grace = probe.termination_grace_period_seconds
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def _hook(hook: LifecycleHandler, path: str, scope: Scope) -> Errors:
    actions = {"exec": hook.exec, "httpGet": hook.http_get, "tcpSocket": hook.tcp_socket, "sleep": hook.sleep}
    yield from _exactly_one(actions, path, scope.grace_period)


def _exactly_one(actions: Mapping[str, _Action | None], path: str, grace_period: int | None) -> Errors:
    given = [(name, action) for name, action in actions.items() if action is not None]
    for name, action in given[:1]:
        yield from _action(action, f"{path}.{name}", grace_period)
    for name, _ in given[1:]:
        yield forbidden(f"{path}.{name}", f"must not be set beside {given[0][0]}: choose one")
    if not given:
        yield required(path, f"must have one of {', '.join(actions)}")


def _action(action: _Action, path: str, grace_period: int | None) -> Errors:
    match action:
        case ExecAction():
            yield from filled(f"{path}.command", action.command)
        case HTTPGetAction():
            yield from _http_get(action, path)
        case TCPSocketAction() | GRPCAction():
            yield from _port(f"{path}.port", action.port)
        case SleepAction():
            if grace_period is not None and not 0 <= action.seconds <= grace_period:
                yield invalid(
                    path,
                    action.seconds,
                    f"must be between 0 and the pod's terminationGracePeriodSeconds, which is {grace_period}",
                )


def _http_get(action: HTTPGetAction, path: str) -> Errors:
    yield from filled(f"{path}.path", action.path)
    yield from _port(f"{path}.port", action.port)
    yield from one_of(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS"))
    for header in action.http_headers:
        yield from spelled(f"{path}.httpHeaders", header.name, names.http_header(header.name))


def _port(field: str, port: IntOrString) -> Errors:
    yield from spelled(field, port, names.port_name(port) if isinstance(port, str) else names.port_number(port))


def _stop_signal(signal: str, field: str, os: str | None) -> Errors:
    if os is None:
        yield forbidden(field, "needs spec.os.name, since signals differ between systems")
    elif os == "windows":
        yield from one_of(field, signal, _WINDOWS_SIGNALS)
    elif os == "linux" and signal not in _SIGNALS:
        yield not_supported(
            field, signal, ("SIGTERM", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGRTMIN+3 and other Linux signals")
        )
