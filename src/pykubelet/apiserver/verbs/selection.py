"""Which objects a list or a watch is about: selectors, asked of stored bytes, with the answers' grounds remembered."""

from typing import Any, NamedTuple

from pykubelet.api.selectors import Selector, matches, parse_fields, parse_labels
from pykubelet.api.validation import names
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import loaded
from pykubelet.apiserver.requests.options import ListOptions
from pykubelet.apiserver.store.port import Entry, Event
from pykubelet.apiserver.strategies.base import Strategy


class Facts(NamedTuple):
    """What selectors may ask of one object."""

    labels: dict[str, str]
    fields: dict[str, str]


class Selection:
    def __init__(self, strategy: Strategy, labels: Selector, fields: Selector) -> None:
        self._strategy = strategy
        self._labels = labels
        self._fields = fields

    @property
    def is_everything(self) -> bool:
        return not self._labels and not self._fields

    def chooses(self, facts: Facts) -> bool:
        return matches(self._labels, facts.labels) and matches(self._fields, facts.fields)

    def holds(self, entry: Entry) -> bool:
        return self.is_everything or self.chooses(self._facts(entry.cache, "facts", entry.value))

    def told(self, event: Event) -> str:
        """As what a watcher sees a change: ADDED, MODIFIED, DELETED, or not at all."""
        if self.is_everything:
            if event.kind == "delete":
                return "DELETED"
            return "ADDED" if event.is_new else "MODIFIED"
        was = event.previous is not None and self.chooses(self._facts(event.cache, "previous", event.previous))
        if event.kind == "delete":
            return "DELETED" if was else ""
        is_in = self.chooses(self._facts(event.cache, "facts", event.value))
        if is_in:
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else ""

    def _facts(self, cache: dict[str, Any], name: str, value: bytes) -> Facts:
        key = name + self._strategy.identity
        found: Facts | None = cache.get(key)
        if found is None:
            obj = loaded(value, 0)
            found = cache[key] = Facts(obj.get("metadata", {}).get("labels") or {}, self._strategy.stored_fields(obj))
        return found


def selection(strategy: Strategy, options: ListOptions) -> Selection:
    """Raises 400 for selectors that make no sense."""
    try:
        labels = parse_labels(options.labels)
    except ValueError as error:
        raise status.bad_request(f"unable to parse requirement: {error}") from None

    for requirement in labels:
        values = () if requirement.operator in ("gt", "lt") else requirement.values
        faults = [
            *names.qualified_name(requirement.key),
            *(each for text in values for each in names.label_value(text)),
        ]
        if faults:
            raise status.bad_request(f"unable to parse requirement: {requirement}: {faults[0]}")

    def check(field: str) -> bool:
        if not strategy.is_selectable(field):
            raise status.bad_request(f"field label not supported: {field}")
        return True

    try:
        fields = parse_fields(options.fields, check)
    except ValueError as error:
        raise status.bad_request(f"unable to parse field selector: {error}") from None
    return Selection(strategy, labels, fields)
