"""The reasons of upstream's events: each is sent, or there is a reason why not."""

import json
import re
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_FACTS: Final = json.loads((_ROOT / "tests" / "data" / "event_reasons.json").read_text())
_ROOMS: Final = ("app", "host", "kube", "node", "plugins", "pod")


def test_every_reason_is_sent_or_told_why_not() -> None:
    files = (file for room in _ROOMS for file in (_ROOT / "src" / "pykubelet" / room).rglob("*.py"))
    said = set(re.findall(r'"([A-Z][A-Za-z0-9]+)"', "".join(file.read_text() for file in files)))
    missing = [reason for reason in _FACTS["sent"] if reason not in said]
    assert not missing, f"nobody sends {missing}"
    sent = [reason for reason in _FACTS["not_sent"] if reason in said]
    assert not sent, f"{sent} are sent by now: say so in the facts"
