"""The process in which jaxlib converts StableHLO to HLO and back: ``TASK SOURCE TARGET``.

A process of its own, since jaxlib ends the one it is in on some modules. The exit code is 1 when
jaxlib refuses, with its reason on standard error.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["TASKS", "main"]


_BYTECODE = b"ML\xefR"
_ENTRY = "main"


def _read(data: bytes) -> bytes:
    """A serialized HloModuleProto of text, bytecode or a portable artifact."""
    stablehlo = data if data.startswith(_BYTECODE) else data.decode()
    try:
        return _converted(stablehlo)
    except Exception as error:
        if f"with `{_ENTRY}` function" not in str(error):
            raise
    return _converted(_with_entry(data))


def _converted(stablehlo: bytes | str) -> bytes:
    computation = _bindings().mlir_module_to_xla_computation(
        stablehlo, use_tuple_args=False, return_tuple=False
    )
    return computation.as_serialized_hlo_module_proto()


def _with_entry(data: bytes) -> str:
    """Text whose only public function, whatever its name, is called ``main``.

    Raises:
        ValueError: there are several public functions, or none.
    """
    ir, stablehlo = _dialects()
    context = _context(ir, stablehlo)
    with context:
        if b"StableHLO_v" in data[:256]:
            module = stablehlo.deserialize_portable_artifact(context, data)
        else:
            module = ir.Module.parse(data if data.startswith(_BYTECODE) else data.decode())
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        public = [op for op in functions if "sym_visibility" not in op.operation.attributes]
        names = [ir.StringAttr(op.operation.attributes["sym_name"]).value for op in public]
        if len(public) != 1:
            raise ValueError(
                f"no function is called {_ENTRY}, and {len(public)} are public: {', '.join(names)}"
            )
        public[0].operation.attributes["sym_name"] = ir.StringAttr.get(_ENTRY)
        return str(module)


def _write(data: bytes) -> Any:
    """StableHLO of a serialized HloModuleProto, as jaxlib's module."""
    artifact = _bindings().hlo_to_stablehlo(data)
    ir, stablehlo = _dialects()
    with _context(ir, stablehlo):
        return ir.Module.parse(artifact)


def _dialects() -> tuple[Any, Any]:
    """The modules of MLIR's bindings and of the StableHLO dialect."""
    ir, stablehlo = (
        importlib.import_module(f"jaxlib.mlir.{name}") for name in ("ir", "dialects.stablehlo")
    )
    return ir, stablehlo


def _context(ir: Any, stablehlo: Any) -> Any:
    """A context that knows every dialect of JAX."""
    context = ir.Context()
    registry = ir.DialectRegistry()
    importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    return context


def _text(data: bytes) -> bytes:
    return (str(_write(data)).rstrip("\n") + "\n").encode()


def _bytecode(data: bytes) -> bytes:
    stream = io.BytesIO()
    _write(data).operation.write_bytecode(stream)
    return stream.getvalue()


def _portable(data: bytes) -> bytes:
    """An artifact of the oldest version that readers of the last months have."""
    stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    weeks = stablehlo.StablehloCompatibilityRequirement.WEEK_12
    version = stablehlo.get_version_from_compatibility_requirement(weeks)
    module = _write(data)
    with module.context:
        return stablehlo.serialize_portable_artifact(module, version)


def _bindings() -> Any:
    return importlib.import_module("jaxlib._jax").mlir


TASKS: dict[str, Callable[[bytes], bytes]] = {
    "read": _read, "text": _text, "bytecode": _bytecode, "portable": _portable,
}  # fmt: skip
"""The tasks of the process."""


def main(task: str, source: str, target: str) -> int:
    """Do one task from one file to another."""
    try:
        Path(target).write_bytes(TASKS[task](Path(source).read_bytes()))
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
