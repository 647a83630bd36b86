"""How numba compiles our kernels: loops over arrays, and each kernel in one piece with all functions that it calls.

This changes how long numba takes and not what comes out. Numba on its own optimises each function four times, and
makes machine code of it, for itself and again as a part of every function that calls it.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

from numba.core import typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.targetconfig import ConfigStack
from numba.core.typing.context import Context


class Compiler(CompilerBase):
    """Numba's compiler with those of its passes alone that loops over arrays need: the others take a fifth of the time.

    They are for closures, comprehensions, array expressions, raising, and variables whose type changes. So each
    variable of a kernel has one type, and what is written for one element is in a loop. A function without an entry
    point for Python (`no_cpython_wrapper`) is a part of its callers.
    """

    def __init__(
        self, typing: Context, target: Any, library: Any, args: Any, result: Any, flags: Flags, variables: Any
    ) -> None:
        super().__init__(_remembering(typing), target, library, args, result, _Flags(flags), variables)  # type: ignore[no-untyped-call]
        self.state.flags.no_compile = flags.no_cpython_wrapper

    def define_pipelines(self) -> list[PassManager]:
        state = self.state
        library = _Part if state.flags.no_compile else _Whole
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.library.enable_object_caching()
        passes = PassManager("plain loops")  # type: ignore[no-untyped-call]
        for step in _PASSES:
            # It says where each variable is used last, for the counts of who uses an array.
            if step is typed_passes.IRLegalization and not state.flags.nrt:
                continue
            passes.add_pass(step, step.__name__)  # type: ignore[no-untyped-call]
        passes.finalize()  # type: ignore[no-untyped-call]
        return [passes]


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Lowering(typed_passes.NativeLowering):
    """From numba's code to LLVM's. A part is made known to its callers under its description: it has no address."""

    _name = "lowering of kernels and parts"

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)  # type: ignore[no-untyped-call]
        if state.flags.no_compile:
            description = state["cr"].fndesc
            state["cr"] = state["cr"]._replace(cfunc=description)
            state.targetctx.insert_user_function(description, description, [state.library])
        return True


_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    typed_passes.NopythonTypeInference,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    _Lowering,
    typed_passes.NoPythonBackend,
)

# How numba's names of entry points for Python begin, and how LLVM calls what may be in several libraries.
_ENTRY = "_ZN7cpython"
_SHARED = "linkonce_odr"


class _Whole(JITCodeLibrary):
    """The code of a kernel, optimised when that of all its parts, and of theirs, is in it."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            # The entry point for Python is run once a call: optimising it takes an eighth of the time.
            if function.name.startswith(_ENTRY) and not function.is_declaration:
                function.add_function_attribute("noinline")
                function.add_function_attribute("optnone")

    def finalize(self) -> None:
        self._linking_libraries = list(self._reached())
        super().finalize()  # type: ignore[no-untyped-call]

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            # Nothing else calls the parts, so what is called once is copied to where it is called.
            if not function.is_declaration and function.linkage.name == _SHARED:
                function.linkage = "internal"
        super()._optimize_final_module()  # type: ignore[no-untyped-call]

    def _reached(self) -> Iterator[JITCodeLibrary]:
        following, met = list(self._linking_libraries), set()
        for library in following:
            if library not in met:
                met.add(library)
                yield library
                if isinstance(library, _Part):
                    following += library._linking_libraries


class _Part(_Whole):
    """The code of a function that only kernels call: neither optimised nor made into machine code on its own."""

    def finalize(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                function.linkage = _SHARED
        self._shared_module = self._final_module
        self._finalized = True


class _Flags(Flags):
    """Options of a function, compared by what was set. Numba compares them thousands of times a kernel, all of them."""

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and bool(self._values == other._values)


class _Typing(Context):
    """Numba's types of functions, that remembers what an operator makes of some types: numba tries dozens of rules."""

    _remembered: ClassVar[dict[object, Any]] = {}

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        if kws or not isinstance(func, types.Function):
            return super().resolve_function_type(func, args, kws)  # type: ignore[no-untyped-call]
        key = func, tuple(args), ConfigStack.top_or_none()  # type: ignore[no-untyped-call]
        signature = self._remembered.get(key)
        if signature is None:
            signature = super().resolve_function_type(func, args, kws)  # type: ignore[no-untyped-call]
            if signature is not None:
                self._remembered[key] = signature
        return signature


@cache
def _remembering(typing: Context) -> _Typing:
    """The same functions, attributes and conversions, with what is remembered beside them."""
    remembering = _Typing.__new__(_Typing)
    remembering.__dict__ = typing.__dict__
    return remembering
