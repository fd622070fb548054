"""Gate the largest module and the longest function: an average hides the giants that all else passes through."""

import ast
import sys
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60
TEST_MODULE_LINES = 600


def main() -> int:
    faults: list[str] = []
    for path in sorted([*Path("src").rglob("*.py"), *Path("tests").rglob("*.py")]):
        if "_gen" in path.parts:
            continue
        text = path.read_text()
        limit = TEST_MODULE_LINES if path.parts[0] == "tests" else MODULE_LINES
        lines = text.count("\n")
        if lines > limit:
            faults.append(f"{path}: {lines} lines; a module has at most {limit}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    faults.append(f"{path}:{node.lineno}: {node.name} has {length} lines; at most {FUNCTION_LINES}")
    print("\n".join(faults) or "sizes: all modules and functions within bounds")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
