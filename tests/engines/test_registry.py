"""One protocol for all families: what a listing says of each method, and names that are refused in one sentence."""

import subprocess
import sys

import pytest

from duckanon.engines.registry import Method, by_name, families, named
from duckanon.errors import InvalidInput

EVERY = [(family, name) for family, methods in families().items() for name in methods]


@pytest.mark.parametrize(("family", "name"), EVERY)
def test_each_method_says_what_it_does(family: str, name: str) -> None:
    method = families()[family][name]
    assert method.name == name
    assert callable(method.run)
    for text in (method.help, method.source, method.limits):
        assert text == text.strip() != ""
        assert "\n" not in text
        assert not text.endswith(".")
    assert all(isinstance(least, int) and least >= 0 for least in method.options.values())


def test_names_of_families_import_no_engine() -> None:
    listed = "import sys; from duckanon.engines.registry import families; names = list(families()); "
    program = (
        listed + "print(names, [m for m in sys.modules if m.startswith(tuple(f'duckanon.engines.{n}' for n in names))])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "['kanon', 'cells', 'groups', 'metric', 'tables'] []"
    with pytest.raises(KeyError):
        families()["registry"]


def test_a_name_is_found_or_refused_with_the_names_there_are() -> None:
    one, two = (Method(name=name, help="h", source="s", limits="l", run=len) for name in ("one", "two"))
    methods = by_name(one, two)
    assert list(methods) == ["one", "two"]
    assert named(methods, "two") is two
    assert named(methods, "auto", aliases={"auto": "one"}) is one
    with pytest.raises(InvalidInput, match=r"^There is no mechanism 'three': choose one of 'one', 'two'\.$"):
        named(methods, "three", kind="mechanism")
    with pytest.raises(InvalidInput, match=r"^There is no method 'three': choose one of 'auto', 'one', 'two'\.$"):
        named(methods, "three", aliases={"auto": "one"})
