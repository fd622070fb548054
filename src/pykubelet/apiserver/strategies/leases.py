"""Leases: whoever renews one says from which version, so that no two hold it."""

from collections.abc import Iterator
from typing import ClassVar

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy


class LeaseStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True
    updates_unconditionally: ClassVar[bool] = False

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        seconds, transitions = at(obj, "spec.leaseDurationSeconds"), at(obj, "spec.leaseTransitions")
        if seconds is not None and seconds <= 0:
            yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
        if transitions is not None and transitions < 0:
            yield invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
