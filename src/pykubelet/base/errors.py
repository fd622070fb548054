"""Failures sorted by what the caller should do about them.

Adapters translate whatever their library raises into one of these at the edge; everything above asks only which of the
four it is.
"""


class PykubeletError(Exception):
    """Any failure that this program foresaw. Its text is one sentence for a person."""

    on_the_wire = ""
    """As it came from another program, where tools look for that form of it."""


class Retry(PykubeletError):
    """It may work later: after `after` seconds if that is known, else by the caller's own back-off."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class NotFound(PykubeletError):
    """The thing does not exist; asking again will not help."""


class Conflict(PykubeletError):
    """Somebody else was faster: read again, decide again."""


class Invalid(PykubeletError):
    """The request can never succeed as it is: a person or a caller has to change it."""


def as_it_came(error: PykubeletError) -> str:
    """For events, which tools compare with those of other agents."""
    return error.on_the_wire or str(error)


def sentence(error: OSError) -> str:
    """What the kernel refused, and of which file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
