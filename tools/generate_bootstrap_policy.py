"""Write the roles and bindings that every cluster begins with, from the lists that Kubernetes keeps of its own.

    python tools/generate_bootstrap_policy.py path/to/kubernetes

Run it again for a new version of Kubernetes. What all of them have in common is left out.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

FOLDER = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
FILES = (
    "cluster-roles",
    "controller-roles",
    "cluster-role-bindings",
    "controller-role-bindings",
    "namespace-roles",
    "namespace-role-bindings",
)
TARGET = Path("src/pykubelet/apiserver/security/rbac/bootstrap_policy.json")
COMMON = {
    "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
}


def main(source: str) -> None:
    found = [
        shortened(item)
        for name in FILES
        for item in yaml.safe_load((Path(source) / FOLDER / f"{name}.yaml").read_text())["items"]
    ]
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in found)
    TARGET.write_text(f"[\n{lines}\n]\n")
    print(f"{TARGET}: {len(found)} objects")


def shortened(item: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(item["metadata"])
    for field, common in COMMON.items():
        own = metadata.pop(field)
        if not common.items() <= own.items():
            raise SystemExit(f"{item['kind']} {metadata['name']} is not like the others: {field} is {own}")
        if rest := {key: value for key, value in own.items() if key not in common}:
            metadata[field] = rest
    content = {key: value for key, value in item.items() if key not in ("apiVersion", "metadata") and value}
    return {"kind": content.pop("kind"), "metadata": metadata, **content}


if __name__ == "__main__":
    main(*sys.argv[1:])
