"""Make `runtime/cri/_gen/` from `runtime/cri/proto/`: messages and their types. Run it after changing a .proto.

The calls themselves need no generated code (`runtime/cri/channel.py`). The generator's check that it was not newer than
the library at run time is taken out, so that older libraries can be used: 5.29 was seen to load the result.
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[1] / "src"
PACKAGE = "pykubelet/runtime/cri/_gen"
"""Where the code lands, and the start of the name that a process knows each file by, which has to be unlike others."""
_DROPPED = ("from google.protobuf import runtime_version", "# Protobuf Python Version", "# NO CHECKED-IN")


def main() -> int:
    sources = ROOT / "pykubelet/runtime/cri/proto"
    well_known = Path(protoc.__file__).parent / "_proto"
    files = [f"{PACKAGE}/{path.name}" for path in sorted(sources.glob("*.proto"))]
    paths = [f"-I{PACKAGE}={sources}", f"-I{well_known}"]
    failed = protoc.main(["protoc", *paths, f"--python_out={ROOT}", f"--pyi_out={ROOT}", *files])
    for path in (ROOT / PACKAGE).glob("*_pb2.py"):
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
