"""The system calls that Python does not offer, by their own names. Failures are OSErrors that say what was tried."""

from __future__ import annotations

import ctypes
import os

CLONE = {
    "mnt": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
}

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_OPEN_TREE = 428  # these numbers are the same on every architecture
_MOVE_MOUNT = 429
_FSOPEN = 430
_FSCONFIG = 431
_FSMOUNT = 432
_OPENAT2 = 437
_MOUNT_SETATTR = 442
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_RESTRICT_SELF = 446
_SCOPE_ABSTRACT_SOCKETS = 1
_PIVOT_ROOT = {"x86_64": 155, "i686": 217, "armv7l": 218, "ppc64le": 203, "s390x": 217}  # elsewhere 41
_KEYCTL = {"x86_64": 250, "i686": 288, "armv7l": 311, "ppc64le": 271, "s390x": 280}  # elsewhere 219
_GETCWD = {"x86_64": 79, "i686": 183, "armv7l": 183, "ppc64le": 182, "s390x": 183}  # elsewhere 17
_JOIN_SESSION_KEYRING = 1
_CAPBSET_READ = 23
_CAPABILITIES_VERSION = 0x20080522
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_CLONE_TREE = 0x1  # of open_tree
_CLOEXEC = 0x1  # of fsopen and fsmount
_SET_STRING = 1  # of fsconfig
_CREATE = 6
_BY_DESCRIPTORS = 0x4 | 0x40  # of move_mount: what is mounted, and where
_NO_MAGIC_LINKS = 0x2  # of openat2
NO_LINKS = 0x4
BENEATH = 0x8
IN_ROOT = 0x10
_PATIENCE = 64
_TIOCSCTTY = 0x540E
_OTHERS = os.uname().machine.startswith("ppc")  # where the numbers of requests are put together in another way
_TIOCSWINSZ = 0x80087467 if _OTHERS else 0x5414
_TIOCSPTLCK = 0x80045431 if _OTHERS else 0x40045431
_TIOCGPTPEER = 0x20005441 if _OTHERS else 0x5441

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def unshare(*kinds: str) -> None:
    flags = 0
    for kind in kinds:
        flags |= CLONE[kind]
    if flags:
        _checked(_libc.unshare(flags), "unshare " + "+".join(kinds))


def setns(descriptor: int, kind: str) -> None:
    _checked(_libc.setns(descriptor, CLONE[kind]), f"join the {kind} namespace")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _checked(result, f"mount {kind or source} at {target}")


def overlay(
    target: str, lower: list[str], upper: str = "", work: str = "", *, flags: int = 0, user_attributes: bool
) -> None:
    """Its parts are named by descriptors: those names hold no colon and no comma. Without an upper one it cannot be
    written to, and there have to be two lower ones. With `user_attributes` it takes note of things where an ordinary
    user may, too."""
    above = [upper, work] if upper else []
    handles = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (*lower, *above)]
    names = [f"/proc/self/fd/{handle}" for handle in handles]
    options = f"lowerdir={':'.join(names[: len(lower)])}"
    if upper:
        options += f",upperdir={names[-2]},workdir={names[-1]}"
    if user_attributes:
        options += ",userxattr"
    try:
        mount("overlay", target, "overlay", flags, options + ",volatile")
    except OSError:
        mount("overlay", target, "overlay", flags, options)
    finally:
        for handle in handles:
            os.close(handle)


def open_inside(root: int, path: str, flags: int, how: int = IN_ROOT) -> int:
    """Open a path without leaving a folder, whatever is put in its way meanwhile. IN_ROOT: links and `..` lead to where
    they would if the folder were the root; BENEATH: those that lead out of it are an error."""
    wanted = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, how | _NO_MAGIC_LINKS)
    arguments = (_OPENAT2, root, os.fsencode(path), ctypes.addressof(wanted), 24)
    for _ in range(_PATIENCE):
        try:
            return _syscall(f"open {path}", *arguments)
        except BlockingIOError:  # something was moved meanwhile, so that the kernel cannot tell where `..` leads
            continue
    return _syscall(f"open {path}", *arguments)


def new_mount(kind: str, attributes: int = 0, **options: str) -> int:
    """A file system that is mounted nowhere yet. -> a descriptor of its root, for `attach`. The attributes have the
    values of their flags for `mount`."""
    context = _syscall(f"open a {kind}", _FSOPEN, kind.encode(), _CLOEXEC)
    try:
        for key, value in options.items():
            _syscall(f"set {key} of a {kind}", _FSCONFIG, context, _SET_STRING, key.encode(), value.encode(), 0)
        _syscall(f"make a {kind}", _FSCONFIG, context, _CREATE, None, None, 0)
        return _syscall(f"mount a {kind}", _FSMOUNT, context, _CLOEXEC, attributes)
    finally:
        os.close(context)


def copy_mount(source: int, *, recursive: bool) -> int:
    """What is at a descriptor, mounted once more, but nowhere yet. -> a descriptor of it, for `attach`"""
    flags = _CLONE_TREE | os.O_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    return _syscall("copy a mount", _OPEN_TREE, source, b"", flags)


def attach(mounted: int, target: int) -> None:
    """Give what was mounted nowhere its place."""
    _syscall("mount", _MOVE_MOUNT, mounted, b"", target, b"", _BY_DESCRIPTORS)


def restrict(mounted: int, attributes: int, *, recursive: bool, propagation: int = 0) -> None:
    """Forbid something to a mount, and to those below it if so wanted; what else was set for them stays."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, propagation, 0)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    _syscall("restrict a mount", _MOUNT_SETATTR, mounted, b"", flags, ctypes.addressof(wanted), 32)


def sync(folder: int) -> None:
    """All that was written to the file system of it is on the disk then."""
    _checked(_libc.syncfs(folder), "write to the disk")


def unmount(target: str) -> None:
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str) -> None:
    """Make a mount the root. The old one lies on top of it until it is unmounted."""
    os.chdir(new_root)
    number = _PIVOT_ROOT.get(os.uname().machine, 41)
    _checked(_libc.syscall(number, b".", b"."), f"make {new_root} the root")


def prctl(option: int, value: int, pointed: ctypes.Array[ctypes.c_uint64] | None = None) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), pointed, 0, 0), f"prctl {option}")


def scope_abstract_sockets() -> None:
    """From now on those of others are out of reach, for us and for all that we start. Takes Linux 6.12."""
    attributes = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_ABSTRACT_SOCKETS)
    handle = _libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    _checked(min(handle, 0), "shut out abstract sockets")
    try:
        _checked(_libc.syscall(_LANDLOCK_RESTRICT_SELF, handle, 0), "shut out abstract sockets")
    finally:
        os.close(handle)


def set_limit(kind: int, most: int) -> None:
    _checked(_libc.setrlimit(kind, (ctypes.c_ulong * 2)(most, most)), "setrlimit")


def set_name(name: str) -> None:
    """What `ps` shows of this process."""
    _libc.prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def set_hostname(name: str) -> None:
    data = name.encode()
    _checked(_libc.sethostname(data, len(data)), f"set the hostname {name}")


def is_in_bounding_set(number: int) -> bool | None:
    """None: there is no such capability."""
    found = int(_libc.prctl(_CAPBSET_READ, ctypes.c_ulong(number), 0, 0, 0))
    return None if found < 0 else bool(found)


def permitted_capabilities() -> int:
    header, words = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    _checked(_libc.capget(header, words), "see the capabilities")
    return words[1] | words[4] << 32


def set_capabilities(mask: int) -> None:
    """Permitted and effective; none is inherited, and so none is ambient."""
    header, low, high = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), mask & 0xFFFFFFFF, mask >> 32
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)), "set the capabilities")


def new_session_keyring() -> None:
    number = _KEYCTL.get(os.uname().machine, 219)
    _syscall("get a session keyring", number, _JOIN_SESSION_KEYRING, None)


def is_inside_root() -> bool:
    """Whether the working folder is. Libraries would go and look for a name for it elsewhere."""
    path = ctypes.create_string_buffer(os.pathconf("/", "PC_PATH_MAX"))
    number = _GETCWD.get(os.uname().machine, 17)
    _syscall("see the working folder", number, ctypes.addressof(path), len(path))
    return path.value.startswith(b"/")


def take_terminal(descriptor: int) -> None:
    _ioctl(descriptor, _TIOCSCTTY, ctypes.c_int(0), "take the terminal")


def unlock_terminal(ours: int) -> None:
    _ioctl(ours, _TIOCSPTLCK, ctypes.byref(ctypes.c_int(0)), "unlock the terminal")


def terminal_peer(ours: int, flags: int) -> int:
    """The other end, whatever has been mounted over its name."""
    return _ioctl(ours, _TIOCGPTPEER, ctypes.c_int(flags), "open the terminal")


def set_window(ours: int, width: int, height: int) -> None:
    size = (ctypes.c_uint16 * 4)(height, width, 0, 0)
    _ioctl(ours, _TIOCSWINSZ, ctypes.byref(size), "resize the terminal")


def _syscall(what: str, number: int, *arguments: int | bytes | None) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    _checked(min(result, 0), what)
    return result


def _ioctl(descriptor: int, request: int, argument: object, what: str) -> int:
    result = int(_libc.ioctl(descriptor, ctypes.c_ulong(request), argument))
    _checked(min(result, 0), what)
    return result


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")
