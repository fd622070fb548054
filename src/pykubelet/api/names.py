"""From a Python field name to its JSON spelling.

Kubernetes spells abbreviations in capitals unless they come first (`podIP`, `hostPID`, but `apiVersion`, `fsGroup`),
so plain camel case is wrong for 1 field in 24. The table below is all there is to know.
"""

_CAPITALS = {
    word: word.upper() for word in ("api", "cidr", "fqdn", "id", "io", "ip", "ipc", "pid", "uri", "url", "uuid")
} | {
    "cidrs": "CIDRs",
    "ips": "IPs",
    "wwns": "WWNs",
}


def json_name(attribute: str) -> str:
    """`pod_ip` -> `podIP`. A trailing underscore, which keeps `continue_` from being a keyword, is dropped."""
    first, *rest = attribute.rstrip("_").split("_")
    return first + "".join(_CAPITALS.get(word) or word.capitalize() for word in rest)
