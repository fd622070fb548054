"""What may leave the machine: configuration, pods and text without what could be a secret. Rather too much is left out
than too little."""

import re
from typing import Any, Final

LEFT_OUT: Final = "[left out]"
_NAMES: Final = re.compile(
    r"token|passw|secret|credential|private|auth$|authorization$|header|cookie|key-?data$|key$|certificate-?data$",
    re.IGNORECASE,
)
_WORD: Final = r"[\w-]*(?:passw(?:or)?d|token|secret|api_?key|credential)[\w-]*"
_VALUE: Final = r"""(?:\\?"[^"]*"|'[^']*'|[^\s,;}"]+)"""
"""In quotes, which may be escaped, or up to where a value can end."""
_TEXTS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(-----END [A-Z ]+-----|$)", re.DOTALL), LEFT_OUT),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(\.[\w-]*)?"), LEFT_OUT),  # a JSON web token
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{4,}", re.IGNORECASE), rf"\1 {LEFT_OUT}"),
    (re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"), LEFT_OUT),  # a bootstrap token
    (re.compile(r"(://[^/\s:@\"]*):[^/\s@\"]+@"), rf"\1:{LEFT_OUT}@"),
    (re.compile(rf"""({_WORD}\\?["']?\s*[=:]\s*){_VALUE}""", re.IGNORECASE), rf"\1{LEFT_OUT}"),
)


def text_without_secrets(text: str) -> str:
    """Of a log or a message: what looks like a credential is left out, wherever it stands."""
    for pattern, instead in _TEXTS:
        text = pattern.sub(instead, text)
    return text


def without_secrets(value: Any, name: str = "") -> Any:
    """Of a configuration: what is called like a secret is left out, and so is what looks like one."""
    if isinstance(value, dict):
        return {key: without_secrets(each, name if _NAMES.search(name) else str(key)) for key, each in value.items()}
    if _NAMES.search(name) and value not in (None, "", True, False, [], {}):
        return LEFT_OUT
    if isinstance(value, list):
        return [without_secrets(each, name) for each in value]
    return text_without_secrets(value) if isinstance(value, str) else value


def pod_without_secrets(pod: dict[str, Any]) -> dict[str, Any]:
    """Values of variables, of headers and of annotations may be anything: their names stay."""
    meta = {name: each for name, each in pod.get("metadata", {}).items() if name != "managedFields"}
    if annotations := meta.get("annotations"):
        meta["annotations"] = dict.fromkeys(annotations, LEFT_OUT)
    bare = {**pod, "metadata": meta, "spec": _without_values(pod.get("spec", {}))}
    found: dict[str, Any] = texts_without_secrets(bare)
    return found


def _without_values(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_values(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _without_values(each) for name, each in value.items()}
    for part in ("env", "httpHeaders"):
        if isinstance(found.get(part), list):
            found[part] = [{**each, "value": LEFT_OUT} if each.get("value") else each for each in found[part]]
    for part in ("volumeAttributes", "options"):  # of storage drivers, whose people write anything into them
        if isinstance(found.get(part), dict):
            found[part] = dict.fromkeys(found[part], LEFT_OUT)
    for part in ("command", "args"):
        if found.get(part):
            found[part] = [found[part][0], LEFT_OUT] if part == "command" else [LEFT_OUT]
    return found


def texts_without_secrets(value: Any) -> Any:
    """All texts in a value, each by itself: so it stays JSON."""
    if isinstance(value, dict):
        return {name: texts_without_secrets(each) for name, each in value.items()}
    if isinstance(value, list):
        return [texts_without_secrets(each) for each in value]
    return text_without_secrets(value) if isinstance(value, str) else value


def story_without_secrets(told: dict[str, Any]) -> dict[str, Any]:
    """Without what programs have written."""
    cause = told.get("cause") or {}
    words = cause.get("lastWords", "")
    sentence = told["sentence"].replace(f"; last words: `{words}`", "") if words else told["sentence"]
    bare = {**told, "sentence": sentence, "lastWords": {}}
    if words:
        bare["cause"] = {**cause, "lastWords": LEFT_OUT}
    found: dict[str, Any] = texts_without_secrets(bare)
    return found
