"""The search for classes as plain Python, with changes to its source: what a fault in it would do."""

import sys
from pathlib import Path
from types import ModuleType

from duckanon.engines.kanon.certificate import nodes, pricing, search


def interpreted(module: str = "", before: str = "", after: str = "") -> ModuleType:
    """The module `pricing` over `nodes` and `search`, none of them compiled.

    before: a piece of the source of one of them, and after: what stands in its place.
    """
    copies: dict[str, ModuleType] = {}
    for original in (nodes, search, pricing):
        name = original.__name__.rpartition(".")[2]
        source = Path(str(original.__file__)).read_text()
        if name == module:
            assert source.count(before) == 1
            source = source.replace(before, after)
        for decorator in ("inlined", "inner", "compiled"):
            source = source.replace(f"@{decorator}\n", "")
        for other, copy in copies.items():
            source = source.replace(f"kanon.certificate.{other} import", f"kanon.certificate.{copy.__name__} import")
        source = source.replace("duckanon.engines.kanon.certificate.interpreted_", "interpreted_")
        copies[name] = sys.modules[f"interpreted_{name}"] = ModuleType(f"interpreted_{name}")
        exec(compile(source, name, "exec"), copies[name].__dict__)
    return copies["pricing"]
