"""Lists the benchmarks, or runs one: python -m tests.bench [NAME [ARGUMENTS]]."""

import ast
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benchmarks() -> dict[str, str]:
    """What each says of itself. Modules without a command to run them only help the others."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if f"python -m tests.bench.{path.stem}" in about:
            found[path.stem] = about
    return found


def main(arguments: list[str]) -> None:
    """Run the benchmark that is named first, with the other arguments; without a name, list all."""
    known = benchmarks()
    if not arguments:
        for name, about in known.items():
            print(f"{name:20} {about.splitlines()[0]}")
    elif arguments[0] not in known:
        sys.exit(f"There is no benchmark {arguments[0]}: choose one of {', '.join(known)}.")
    else:
        sys.argv = arguments
        runpy.run_module(f"tests.bench.{arguments[0]}", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
