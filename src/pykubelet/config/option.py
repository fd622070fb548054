"""What an option is: the field of the KubeletConfiguration and the flag that it comes from, how it is written, where in
`Config` it goes, or why it goes nowhere. Quick to load: who asks for help does not wait for more."""

from enum import Enum, auto
from typing import Any, Final, NamedTuple


class Kind(Enum):
    """How a value is written in a file and in a flag, and what is made of it (`flags`, `kubelet_configuration`,
    `values`). In a file, nothing and zero mean "not set", and so the default, unless a kind says otherwise."""

    TEXT = auto()
    TEXT_OR_NOTHING = auto()
    """Text that may be empty on purpose."""
    TRUTH = auto()
    SWITCH = auto()
    """A truth value that nobody writes down while it is off."""
    NUMBER = auto()
    """Zero is a number like any other."""
    COUNT = auto()
    LONG = auto()
    """A number of 64 bits, zero included."""
    FLOAT = auto()
    PERIOD = auto()
    """A duration that can never be zero: a flag's zero means the default, too."""
    DURATION = auto()
    EXACT_DURATION = auto()
    """Zero is a duration like any other."""
    SIGNED_DURATION = auto()
    """It may be negative."""
    FLUSH_PERIOD = auto()
    """A duration, or a number of nanoseconds."""
    SIZE = auto()
    """A quantity of bytes."""
    QUANTITY = auto()
    ADDRESS = auto()
    LIST = auto()
    ADDRESSES = auto()
    PARTS = auto()
    """One text with commas in it."""
    PAIRS = auto()
    THRESHOLDS = auto()
    """Pairs with a `<` in between."""
    RESOURCES = auto()
    """Quantities of resources that can be kept back."""
    GATES = auto()
    HEADERS = auto()
    TAINTS = auto()
    VMODULE = auto()
    GRACE_PERIODS = auto()
    """Seconds by the priority of pods."""
    MEMORY = auto()
    """Memory kept back on each NUMA node."""


LASTING: Final = frozenset({"v", "vmodule", "log-flush-frequency", "provider-id", "fail-cgroupv1", "seccomp-default"})
"""Flags that belong to a field and are there to stay. Upstream would have people use the file instead of all others."""


class Option(NamedTuple):
    field: str
    """Its path in the KubeletConfiguration, in upstream's spelling; empty for what can only be a flag."""
    kind: Kind
    default: Any
    """As a file would say it."""
    settings: tuple[str, ...]
    """Paths in `Config`, mostly one. None for what `config.agent` makes others of."""
    flag: str = ""
    metavar: str = ""
    help: str = ""
    shown: str = ""
    """What people are told to be the default, when that is not the value itself."""
    secret: bool = False
    """Nobody is told what the flag was."""
    vain: str = ""
    """Why it has no effect here."""
    is_old: bool = False
    """A flag without a field that upstream would be rid of."""
    is_ours: bool = False
    """Upstream has no such flag."""
    reloads: bool = False
    """A changed file is heeded while the agent runs."""

    @property
    def key(self) -> str:
        """Under which a given value goes, and by which it is named to people."""
        return self.field or f"--{self.flag}"

    @property
    def is_deprecated(self) -> bool:
        """Whether people who give the flag are told not to."""
        return self.is_old or (bool(self.field) and not self.is_ours and self.flag not in LASTING)

    @property
    def told(self) -> str:
        """The default, as people are told."""
        match self.default:
            case bool():
                return str(self.default).lower()
            case int() | float() | str() if not self.shown:
                return str(self.default)
        return self.shown
