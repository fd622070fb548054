"""What people decide about static pods."""

from collections.abc import Mapping

from msgspec import Struct

from pykubelet.api.validation.options import PodValidationOptions


class StaticPodSettings(Struct, frozen=True, kw_only=True):
    path: str = ""
    """A manifest, or a folder of them; empty: none."""
    url: str = ""
    """Where more of them come from; empty: nowhere."""
    url_header: Mapping[str, tuple[str, ...]] = {}
    """Headers of the requests for `url`. Never logged."""
    file_check_period: float = 20.0
    http_check_period: float = 20.0
    lenient: bool = False
    """Fields that no pod has are told of and ignored, as upstream does; else their manifest is refused."""
    validation: PodValidationOptions = PodValidationOptions()
