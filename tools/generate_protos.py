"""Make each `_gen/` from the `proto/` beside it: messages and their types. Run it after changing a .proto.

The calls themselves need no generated code (`web/grpc_channel.py`, `apiserver/store/etcd_channel.py`). The
generator's check that it was not newer than the library at run time is taken out, so that older libraries can be used:
5.29 was seen to load the result.
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[1] / "src"
ROOMS = ("pykubelet/runtime/cri", "pykubelet/plugins", "pykubelet/apiserver/discovery", "pykubelet/apiserver/store")
"""Each has a `proto/`, and a `_gen/` whose path starts the name that a process knows each file by: unlike others."""
_DROPPED = ("from google.protobuf import runtime_version", "# Protobuf Python Version", "# NO CHECKED-IN")


def main() -> int:
    return max(map(_generate, ROOMS))


def _generate(room: str) -> int:
    sources, package = ROOT / room / "proto", f"{room}/_gen"
    well_known = Path(protoc.__file__).parent / "_proto"
    files = [f"{package}/{path.name}" for path in sorted(sources.glob("*.proto"))]
    paths = [f"-I{package}={sources}", f"-I{well_known}"]
    failed = protoc.main(["protoc", *paths, f"--python_out={ROOT}", f"--pyi_out={ROOT}", *files])
    for path in (ROOT / package).glob("*_pb2.py"):
        path.write_text(_unchecked(path.read_text()))
    return int(failed)


def _unchecked(code: str) -> str:
    kept: list[str] = []
    checking = False
    for line in code.splitlines(keepends=True):
        checking = checking or line.startswith("_runtime_version.Validate")
        if not checking and not line.startswith(_DROPPED):
            kept.append(line)
        checking = checking and not line.startswith(")")
    return "".join(kept)


if __name__ == "__main__":
    sys.exit(main())
