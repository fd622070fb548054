"""What the agent asks of the shim. Values travel as `marshal`, so they are made of plain lists, strings and numbers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Identity(TypedDict):
        """A process that cannot be mistaken for another one that got the same pid later."""

        pid: int
        start: int
        boot: str

    class Holder(TypedDict):
        """A sandbox's process, and the namespaces that its containers join."""

        identity: Identity
        namespaces: list[str]

    class SandboxSpec(TypedDict):
        folder: str
        hostname: str
        namespaces: list[str]
        """New ones: of user, uts, ipc, pid."""

    class MountSpec(TypedDict):
        source: str
        inside: str
        """The part of the source that is meant; empty: all of it."""
        target: str
        read_only: bool
        recursive_read_only: bool
        follow: bool
        """Whether later mounts on this machine are seen in the container."""
        device: bool
        """Whether it is a device file, to be used as one."""
        image: list[str]
        """The layers of the image that is mounted, as those of the root; empty: it is the source."""

    class RootSpec(TypedDict):
        scratch: str
        """Where the container's own writes go."""
        image: list[str]
        """The folders with the image's layers, the topmost first; without an overlay a single one that is the
        container's own. None: the container sees this machine's programs."""
        overlay: bool
        in_user_namespace: bool
        read_only: bool
        privileged: bool
        fresh_proc: bool
        hidden: list[str]
        """What of this machine's files is not shown, by paths without links."""
        shm: str
        files: list[tuple[str, str]]
        """(path in the container, file on this machine) of what the runtime itself provides."""
        mounts: list[MountSpec]

    class UserSpec(TypedDict):
        uid: int
        gid: int
        groups: list[int] | None
        """None: they cannot or need not be changed."""
        mapped: bool
        """By one more user namespace instead of by changing ids, which an ordinary user may not do."""

    class ProgramSpec(TypedDict):
        argv: list[str]
        env: dict[str, str]
        cwd: str
        user: UserSpec | None
        capabilities: list[int] | None
        """Those that may be had; None: whatever there is."""
        no_new_privileges: bool
        scoped: bool
        """Whether abstract unix sockets of others are out of its reach."""
        seccomp: bytes | None
        """The filter for its system calls; None: all are allowed."""
        oom_score_adj: int
        limits: list[tuple[int, int]]
        """What each of its processes may have: (the kernel's number of the resource, how much)."""
        cgroups: list[str]
        """The `cgroup.procs` files to be written to."""

    class ContainerSpec(TypedDict):
        folder: str
        name: str
        holder: Holder
        own_pids: bool
        target: Identity | None
        """The program of another container, whose processes it is among; None: it has its own or the sandbox's."""
        root: RootSpec | None
        program: ProgramSpec
        tty: bool
        stdin: bool
        stop_signal: int
        log: str
        log_size: int
        log_files: int
        oom_events: str
        """The file that counts the kernel's kills for want of memory; empty: none."""

    class ExecSpec(TypedDict):
        holder: Holder
        main: Identity
        program: ProgramSpec
