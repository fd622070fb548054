"""Writes src/pykubelet/apiserver/schema/facts.txt: what the kinds of Kubernetes are made of, as facts and no sentences.

    python tools/make_schema.py <folder of an unpacked Kubernetes source tree>

The published OpenAPI and discovery documents say which kinds, fields, types and merge rules there are; the tags in the
Go types say what JSON leaves out, what a pointer tells apart, and the numbers that protobuf uses. A line of the file is
a name, a tab and JSON: `resource` lines in the order of discovery, then a line for each type.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path("src/pykubelet/apiserver/schema/facts.txt")
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
PACKAGES = {
    "io.k8s.api.": "k8s.io/api",
    "io.k8s.apiextensions-apiserver.": "k8s.io/apiextensions-apiserver",
    "io.k8s.apimachinery.": "k8s.io/apimachinery",
    "io.k8s.kube-aggregator.": "k8s.io/kube-aggregator",
    "io.k8s.metrics.": "k8s.io/metrics",
}
SCALARS = {
    f"{META}.Time": "time",
    f"{META}.MicroTime": "microTime",
    f"{META}.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intOrString",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
}
FORMATS = {"int32": "int32", "int64": "int64", "byte": "bytes", "double": "double", "date-time": "time"}
METRICS = {  # not part of the published documents, for another server serves them
    "ContainerMetrics": {"name": "string", "usage": "{quantity"},
    "NodeMetrics": {"timestamp": "time", "window": "string", "usage": "{quantity"},
    "PodMetrics": {"timestamp": "time", "window": "string", "containers": "[ContainerMetrics"},
}
FIELD = re.compile(r"^\s+(?:(\w+)\s+)?(\S+)\s+`(.*)`")
MARKED = re.compile(r"// \+enum\n(?://[^\n]*\n)*type (\w+) string")  # the values it has are all there are
VALUE = re.compile(r'^\s+\w+\s+(\w+)\s*=\s*"([^"]*)"', re.MULTILINE)
TAG = re.compile(r'(\w+):"([^"]*)"')


class GoField:
    def __init__(self, kind: str, tags: dict[str, str]) -> None:
        name, *options = tags.get("json", "").split(",")
        self.name, self.kind = name, kind
        self.is_inline = "inline" in options
        self.omits = "omitempty" in options or "omitzero" in options
        self.omits_zero = "omitzero" in options
        number = re.match(r"\w+,(\d+)", tags.get("protobuf", ""))
        self.number = int(number[1]) if number else 0


class Package:
    """The structs and enumerations of one folder of Go files."""

    def __init__(self, folder: Path) -> None:
        self.structs: dict[str, list[GoField]] = {}
        self.enums: dict[str, set[str]] = {}
        values: dict[str, set[str]] = {}
        marked: set[str] = set()
        for path in sorted(folder.glob("*.go")):
            if not path.name.startswith("zz_") and not path.name.endswith(("_test.go", ".pb.go")):
                text = path.read_text()
                self._read(text)
                marked |= set(MARKED.findall(text))
                for kind, value in VALUE.findall(text):
                    values.setdefault(kind, set()).add(value)
        self.enums = {kind: values.get(kind, set()) - {""} for kind in marked}

    def _read(self, text: str) -> None:
        owner = ""
        for line in text.splitlines():
            if found := re.match(r"type (\w+) struct \{", line):
                owner = found[1]
                self.structs.setdefault(owner, [])
            elif line.startswith("}"):
                owner = ""
            elif owner and (found := FIELD.match(line)):
                self.structs[owner].append(GoField(found[2], dict(TAG.findall(found[3]))))


class Source:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages: dict[str, Package] = {}

    def package(self, name: str) -> Package:
        """By the first part of the names that OpenAPI gives its types."""
        if name not in self.packages:
            prefix = next(each for each in PACKAGES if f"{name}.".startswith(each))
            path = f"{PACKAGES[prefix]}/" + name.removeprefix(prefix).replace(".", "/")
            if name == META:
                path = "k8s.io/apimachinery/pkg/apis/meta/v1"
            self.packages[name] = Package(self.root / "staging/src" / path)
        return self.packages[name]

    def fields(self, name: str) -> dict[str, tuple[GoField, list[int], str]]:
        """Each JSON field of a type, with the way to it in protobuf and the package that it is written in."""
        package, _, short = name.rpartition(".")
        return dict(self._fields(package, short, []))

    def _fields(self, package: str, short: str, way: list[int] | None) -> Any:
        """Without a way: the envelope says it."""
        for field in self.package(package).structs.get(short, ()):
            if field.is_inline:
                where, kind = package, field.kind.lstrip("*")
                if "." in kind:
                    alias, kind = kind.split(".")
                    where = META if alias == "metav1" else "io.k8s.api.core.v1"
                inner = [*way, field.number] if way is not None and field.number else None
                yield from self._fields(where, kind, inner)
            elif field.name and field.name != "-":
                number = [*way, field.number] if way is not None and field.number else []
                yield field.name, (field, number, package)


def documents(root: Path) -> dict[str, Any]:
    """The schemas of the versions that are served without being asked for: the stable ones."""
    found: dict[str, Any] = {}
    for path in sorted((root / "api/openapi-spec/v3").glob("api*_openapi.json")):
        if re.search(r"__v\d+_openapi", path.name):
            found |= json.loads(path.read_text())["components"]["schemas"]
    return found


def type_of(schema: Any, schemas: Any, inside: str) -> str:
    if "allOf" in schema:
        return type_of(schema["allOf"][0], schemas, inside)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in SCALARS:
            return SCALARS[name]
        target = schemas[name]
        if "properties" not in target and target.get("type") == "string":
            return "string"
        if "properties" not in target and target.get("type") != "object":
            return f"any:{name}"
        package, _, short = name.rpartition(".")
        return short if package == inside else name
    if schema.get("type") == "array":
        return "[" + type_of(schema["items"], schemas, inside)
    if "additionalProperties" in schema:
        return "{" + type_of(schema["additionalProperties"], schemas, inside)
    simple = {"string": "string", "boolean": "bool", "integer": "int64", "number": "double"}
    return FORMATS.get(schema.get("format", "")) or simple.get(schema.get("type", ""), "any")


def extras_of(schema: Any, enum: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = {
        "x-kubernetes-list-type": "list",
        "x-kubernetes-list-map-keys": "keys",
        "x-kubernetes-map-type": "map",
        "x-kubernetes-patch-strategy": "patch",
        "x-kubernetes-patch-merge-key": "merge",
    }
    for name, short in names.items():
        if name in schema:
            found[short] = schema[name]
    if schema.get("default") not in (None, {}, "", 0, False):
        found["default"] = schema["default"]
    if enum:
        found["enum"] = enum
    return found


def enum_of(source: Source, field: GoField, package: str) -> list[str]:
    kind = field.kind.lstrip("*[]")
    if "." in kind:
        alias, kind = kind.split(".")
        package = {"v1": "io.k8s.api.core.v1", "corev1": "io.k8s.api.core.v1"}.get(alias, META)
    return sorted(source.package(package).enums.get(kind, ()))


def type_lines(source: Source, schemas: Any) -> list[str]:
    lines = []
    for name in sorted(schemas):
        schema = schemas[name]
        properties = schema.get("properties", {})
        is_list = name.endswith("List") and "items" in properties
        if schema.get("type") != "object" or name in SCALARS or name == f"{META}.Patch" or is_list:
            continue
        package = name.rpartition(".")[0]
        go = source.fields(name)
        required = schema.get("required", [])
        fields = []
        for label, inner in sorted(properties.items()):
            kind = type_of(inner, schemas, package)
            flags, way, enum = "", [], []
            if label in go:
                field, way, where = go[label]
                enum = enum_of(source, field, where)
                is_pointer = field.kind.startswith(("*", "[", "map"))
                is_struct = not is_pointer and (inner.get("default") == {} or kind in ("time", "microTime"))
                is_struct = is_struct or (not is_pointer and kind in ("quantity", "intOrString"))
                flags += "w" if (not field.omits or is_struct) and not field.omits_zero else ""
                flags += "p" if field.kind.startswith("*") else ""
            flags += "r" if label in required else ""
            entry: list[Any] = [label, kind, flags, way[0] if len(way) == 1 else way]
            extras = extras_of(inner, enum)
            fields.append([*entry, extras] if extras else entry)
        about = {"map": schema["x-kubernetes-map-type"]} if "x-kubernetes-map-type" in schema else {}
        lines.append(f"{name}\t{json.dumps([fields, about] if about else [fields], separators=(',', ':'))}")
    return lines


def metrics_schemas() -> dict[str, Any]:
    """In the words of OpenAPI, so that they are treated like the rest."""
    package = "io.k8s.metrics.pkg.apis.metrics.v1beta1"
    words: dict[str, Any] = {
        "string": {"type": "string"},
        "time": {"$ref": f"#/{META}.Time"},
        "{quantity": {
            "type": "object",
            "additionalProperties": {"$ref": "#/io.k8s.apimachinery.pkg.api.resource.Quantity"},
        },
        "[ContainerMetrics": {"type": "array", "items": {"$ref": f"#/{package}.ContainerMetrics"}},
    }
    found: dict[str, Any] = {}
    for name, fields in METRICS.items():
        properties = {label: words[kind] for label, kind in fields.items()}
        if name != "ContainerMetrics":
            metadata = {"$ref": f"#/{META}.ObjectMeta", "default": {}}
            properties |= {"apiVersion": words["string"], "kind": words["string"], "metadata": metadata}
        found[f"{package}.{name}"] = {"type": "object", "properties": properties, "required": sorted(fields)}
    return found


def resource_lines(root: Path) -> list[str]:
    folder = root / "api/discovery"
    groups = json.loads((folder / "aggregated_v2.json").read_text())["items"]
    found = [("", "v1", "api__v1.json")]
    for group in groups:
        name = group["metadata"]["name"]
        versions = [each["version"] for each in group["versions"] if re.fullmatch(r"v\d+", each["version"])]
        found += [(name, version, f"apis__{name}__{version}.json") for version in versions]
    lines = []
    for group_name, version, file in found:
        entries = json.loads((folder / file).read_text())["resources"]
        for entry in entries:
            if "/" in entry["name"]:
                continue
            parts = [
                [each["name"].partition("/")[2], each["kind"], each["verbs"]]
                + ([each["group"], each["version"]] if each.get("group") else [])
                for each in entries
                if each["name"].startswith(f"{entry['name']}/")
            ]
            facts = {
                "group": group_name,
                "version": version,
                "kind": entry["kind"],
                "plural": entry["name"],
                "singular": entry["singularName"],
                "namespaced": entry["namespaced"],
                "verbs": entry["verbs"],
                "short_names": entry.get("shortNames", []),
                "categories": entry.get("categories", []),
                "parts": parts,
                "hash": entry.get("storageVersionHash", ""),
            }
            kept = {key: value for key, value in facts.items() if value or key == "group"}
            lines.append("resource\t" + json.dumps(kept, separators=(",", ":")))
    return lines


def main() -> None:
    root = Path(sys.argv[1])
    schemas = documents(root) | metrics_schemas()
    source = Source(root)
    lines = [*resource_lines(root), *type_lines(source, schemas)]
    TARGET.write_text("\n".join(lines) + "\n")
    print(f"{TARGET}: {len(lines)} lines, {TARGET.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
