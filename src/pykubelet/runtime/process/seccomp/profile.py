"""A profile as people write it, in the format of OCI runtimes with Docker's conditions, and what it means for one
container on one machine. What cannot be honoured to the letter is refused."""

import errno
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from pykubelet.api.codec import DecodeError, decode
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.seccomp.bpf import Condition, Filter, Rule
from pykubelet.runtime.process.seccomp.numbers import Architecture, all_names, numbers_of, spoken

_UINT64 = Annotated[int, msgspec.Meta(ge=0)]
_ERRNO = Annotated[int, msgspec.Meta(ge=0, le=4095)]
_ACTIONS: Final = {
    "SCMP_ACT_KILL": 0,
    "SCMP_ACT_KILL_THREAD": 0,
    "SCMP_ACT_KILL_PROCESS": 0x8000_0000,
    "SCMP_ACT_TRAP": 0x0003_0000,
    "SCMP_ACT_ERRNO": 0x0005_0000,
    "SCMP_ACT_TRACE": 0x7FF0_0000,
    "SCMP_ACT_LOG": 0x7FFC_0000,
    "SCMP_ACT_ALLOW": 0x7FFF_0000,
}
_WITH_NUMBER: Final = ("SCMP_ACT_ERRNO", "SCMP_ACT_TRACE")
_LENIENT: Final = ("SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_TRACE")
_TOKENS: Final = {f"SCMP_ARCH_{name.upper()}": name for name in ("x86_64", "x32", "x86", "aarch64", "arm")}
_GO_NAMES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_HARMLESS_FLAGS: Final = ("SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_SPEC_ALLOW")
"""There is one thread when the filter is set; and speculation stays as safe as the kernel wants it."""
_OPERATORS = Literal[
    "SCMP_CMP_NE", "SCMP_CMP_LT", "SCMP_CMP_LE", "SCMP_CMP_EQ", "SCMP_CMP_GE", "SCMP_CMP_GT", "SCMP_CMP_MASKED_EQ"
]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class Argument(_Part, frozen=True, kw_only=True):
    index: Annotated[int, msgspec.Meta(ge=0, le=5)]
    value: _UINT64
    value_two: _UINT64 = 0
    op: _OPERATORS


class Applies(_Part, frozen=True, kw_only=True):
    arches: tuple[str, ...] = ()
    caps: tuple[str, ...] = ()
    min_kernel: str = ""


class Syscalls(_Part, frozen=True, kw_only=True):
    names: tuple[str, ...] = ()
    name: str = ""
    action: str
    errno_ret: _ERRNO | None = None
    errno: str = ""
    args: tuple[Argument, ...] = ()
    comment: str = ""
    includes: Applies = Applies()
    excludes: Applies = Applies()


class ArchitectureMap(_Part, frozen=True, kw_only=True):
    architecture: str
    sub_architectures: tuple[str, ...] = ()


class Profile(_Part, frozen=True, kw_only=True):
    default_action: str
    default_errno_ret: _ERRNO | None = None
    default_errno: str = ""
    architectures: tuple[str, ...] = ()
    arch_map: tuple[ArchitectureMap, ...] = ()
    flags: tuple[str, ...] = ()
    syscalls: tuple[Syscalls, ...] = ()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile's conditions ask about: the kernel's own name of its architecture, and its release."""

    architecture: str
    release: str


def parse(text: bytes) -> Profile:
    """Raises Invalid."""
    try:
        profile = decode(Profile, text)
    except DecodeError as error:
        raise Invalid(str(error)) from None
    for flag in profile.flags:
        if flag not in _HARMLESS_FLAGS:
            raise Invalid(f"flags: {flag} is not provided")
    for rule in profile.syscalls:
        if any(max(each.value, each.value_two) >= 1 << 64 for each in rule.args):
            raise Invalid("syscalls: an argument has 64 bits")
        unknown = [name for name in _names(rule) if name not in all_names()]
        if unknown and rule.action not in _LENIENT:  # to leave out what forbids something would allow it
            raise Invalid(f"syscalls: there is no system call {unknown[0]}")
    return profile


def filter_of(profile: Profile, capabilities: frozenset[str], machine: Machine) -> Filter:
    """Raises Invalid."""
    default = _action(profile.default_action, profile.default_errno_ret, profile.default_errno)
    rules = [rule for rule in profile.syscalls if _applies(rule, capabilities, machine)]
    tables: dict[Architecture, dict[int, list[Rule]]] = {}
    for architecture in _architectures(profile, machine):
        table = tables[architecture] = {}
        numbers = numbers_of(architecture.name)
        for rule in rules:
            action = _action(rule.action, rule.errno_ret, rule.errno)
            for name in _names(rule):
                if name in numbers:
                    table.setdefault(numbers[name], []).extend(
                        Rule(action=action, conditions=conditions) for conditions in _alternatives(rule)
                    )
    unknown = default if profile.default_action in _LENIENT else _ACTIONS["SCMP_ACT_ERRNO"] | errno.ENOSYS
    return Filter(default=default, unknown=unknown, tables=tables)


def _names(rule: Syscalls) -> tuple[str, ...]:
    return rule.names or (rule.name,)


def _action(name: str, number: int | None, by_name: str) -> int:
    if name == "SCMP_ACT_NOTIFY":
        raise Invalid("SCMP_ACT_NOTIFY is not provided: there is nobody who could be notified")
    if name not in _ACTIONS:
        raise Invalid(f"there is no action {name}")
    if name in _WITH_NUMBER:
        named = getattr(errno, by_name or "EPERM", None)
        if not isinstance(named, int):
            raise Invalid(f"there is no error {by_name}")
        return _ACTIONS[name] | (named if number is None else number)
    return _ACTIONS[name]


def _architectures(profile: Profile, machine: Machine) -> list[Architecture]:
    """The machine's own always: else no program could run at all."""
    here = spoken(machine.architecture)
    if not here:
        raise Invalid(f"there are no numbers of system calls for {machine.architecture} here")
    wanted = set(profile.architectures)
    for entry in profile.arch_map:
        if _TOKENS.get(entry.architecture) == here[0].name:
            wanted |= {entry.architecture, *entry.sub_architectures}
    named = {_TOKENS[token] for token in wanted if token in _TOKENS}
    return [each for each in here if each is here[0] or each.name in named]


def _applies(rule: Syscalls, capabilities: frozenset[str], machine: Machine) -> bool:
    here = _GO_NAMES[machine.architecture]
    includes, excludes = rule.includes, rule.excludes
    if (includes.arches and here not in includes.arches) or here in excludes.arches:
        return False
    if not capabilities.issuperset(includes.caps) or capabilities.intersection(excludes.caps):
        return False
    if includes.min_kernel and _version(machine.release) < _version(includes.min_kernel):
        return False
    return not (excludes.min_kernel and _version(machine.release) >= _version(excludes.min_kernel))


def _version(text: str) -> tuple[int, int]:
    major, _, rest = text.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        raise Invalid(f"{text!r} is not the version of a kernel, such as 4.8")
    return int(major), int(minor)


def _alternatives(rule: Syscalls) -> Iterator[tuple[Condition, ...]]:
    """All arguments have to be as wanted. But several wishes for one argument have always been read as alternatives."""
    conditions = tuple(
        Condition(index=each.index, operator=each.op.removeprefix("SCMP_CMP_"), value=each.value, other=each.value_two)
        for each in rule.args
    )
    if len({each.index for each in conditions}) == len(conditions):
        yield conditions
    else:
        yield from ((each,) for each in conditions)
