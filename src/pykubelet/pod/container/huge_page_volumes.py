"""Which huge pages an emptyDir is made of: those that its pod asks for."""

from typing import Final

from pykubelet.api import quantity
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import HUGEPAGES_PREFIX
from pykubelet.base.errors import Invalid

MEDIUM: Final = "HugePages"


def is_huge_pages(medium: str) -> bool:
    return medium == MEDIUM or medium.startswith(f"{MEDIUM}-")


def volume_page_size(pod: Pod, medium: str) -> int:
    """In bytes. `HugePages` alone means the only size that the pod asks for. Raises Invalid, in upstream's words."""
    spec = pod.spec
    whole = spec.resources.requests if spec.resources is not None else {}
    asked = {
        _size(name.removeprefix(HUGEPAGES_PREFIX))
        for requests in (whole, *(each.resources.requests for each in (*spec.containers, *spec.init_containers)))
        for name in requests
        if name.startswith(HUGEPAGES_PREFIX)
    }
    if medium != MEDIUM:
        asked &= {_size(medium.removeprefix(f"{MEDIUM}-"))}
    if len(asked) > 1:
        raise Invalid(f"medium: {medium} can't be used if container requests multiple huge page sizes")
    if not asked:
        raise Invalid(f"medium {medium}: hugePages storage requested, but there is no resource request for huge pages")
    return asked.pop()


def shown_size(size: int) -> str:
    return str(Quantity.of(size, "BinarySI"))


def _size(text: str) -> int:
    try:
        return quantity.parse(text).value
    except ValueError:
        raise Invalid(f"there are no huge pages of size {text!r}") from None
