"""Service accounts: of the secrets that one may use, only the names are kept."""

from datetime import datetime

from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.base import Strategy


class ServiceAccountStrategy(Strategy):
    def prepare_create(self, obj: Object, now: datetime) -> None:
        super().prepare_create(obj, now)
        _keep_names(obj)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        _keep_names(obj)


def _keep_names(obj: Object) -> None:
    for each in obj.get("secrets") or ():
        for name in each.keys() - {"name"}:
            del each[name]
