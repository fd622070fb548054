"""The small cores of two large modules, whose enums would cost every shim a megabyte."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
else:
    import _signal as signal
    import _socket as socket

__all__ = ["signal", "socket"]
