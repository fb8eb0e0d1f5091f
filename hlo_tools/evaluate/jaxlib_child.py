"""Runs one module with jaxlib; started as a process of its own, because jaxlib may abort.

Usage: python -m hlo_tools.evaluate.jaxlib_child FOLDER TOKEN..., with ``module.pb`` and ``in0.npy``,
... in the folder; writes ``out0.npy``, ... beside them, without the results of which a TOKEN is the
number. Types that NumPy does not know are stored as
their bytes, with the type's name in the file's name.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hlo_tools.types.element_types import Array, DType

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["execute", "execute_devices", "main", "read_arrays", "write_arrays"]


def write_arrays(folder: Path, prefix: str, arrays: Sequence[ArrayLike]) -> None:
    """Write arrays as ``prefix<number>.<dtype>.npy``."""
    for number, array in enumerate(arrays):
        value = np.ascontiguousarray(array).reshape(np.shape(array))
        plain = value if value.dtype.kind in "biufc" else value.view(f"u{value.dtype.itemsize}")
        np.save(folder / f"{prefix}{number}.{value.dtype.name}.npy", plain)


def read_arrays(folder: Path, prefix: str) -> list[Array]:
    """Read the arrays that :func:`write_arrays` wrote, in order."""
    arrays: dict[int, Array] = {}
    for path in folder.glob(f"{prefix}*.npy"):
        number, name, _ = path.name.removeprefix(prefix).split(".")
        value = np.load(path)
        arrays[int(number)] = value if value.dtype.name == name else value.view(_dtype(name))
    return [arrays[number] for number in sorted(arrays)]


def _dtype(name: str) -> DType:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def execute(data: bytes, inputs: list[Array], tokens: Collection[int] = ()) -> list[Array]:
    """Compile a module for the CPU in this process and run it; ``tokens`` are not arrays."""
    return execute_devices(data, [inputs], 1, tokens)[0]


def execute_devices(
    data: bytes, inputs: Sequence[list[Array]], partitions: int, tokens: Collection[int] = ()
) -> list[list[Array]]:
    """The same on several devices: inputs and results by device, replica by replica.

    With partitions, instructions need manual shardings; XLA partitions what lacks them.
    """
    config = import_module("jax").config
    wide = config.values["jax_enable_x64"]
    config.update("jax_enable_x64", True)
    try:
        return _execute(data, inputs, partitions, tokens)
    finally:
        config.update("jax_enable_x64", wide)


def _execute(
    data: bytes, inputs: Sequence[list[Array]], partitions: int, tokens: Collection[int]
) -> list[list[Array]]:
    jax, core = import_module("jax"), import_module("jax.core")
    library, native = import_module("jaxlib.xla_client"), import_module("jaxlib._jax")
    count = len(inputs)
    client = _client(count)
    devices = client.local_devices()
    options = library.CompileOptions()
    options.num_replicas, options.num_partitions = count // partitions, partitions
    options.executable_build_options.use_spmd_partitioning = partitions > 1
    numbers = np.arange(count).reshape(-1, partitions)
    options.device_assignment = library.DeviceAssignment.create(numbers)
    stable = native.mlir.hlo_to_stablehlo(data)
    loaded = client.compile_and_load(stable, library.DeviceList(tuple(devices)), options)
    mesh = jax.sharding.Mesh(np.array(devices), ("device",))
    location = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    arguments: list[object] = []
    for parts in zip(*inputs, strict=True):
        kind = core.ShapedArray(parts[0].shape, parts[0].dtype)
        single = [
            library.batched_device_put(
                kind, jax.sharding.SingleDeviceSharding(device), [shard], [device], True
            )
            for shard, device in zip(parts, devices, strict=True)
        ]
        arguments.append(jax.make_array_from_single_device_arrays(parts[0].shape, location, single))
    outputs = loaded.execute_sharded(arguments).disassemble_into_single_device_arrays()
    array_outputs = [parts for number, parts in enumerate(outputs) if number not in tokens]
    return [[np.asarray(parts[number]) for parts in array_outputs] for number in range(count)]


@functools.cache
def _client(count: int) -> Any:
    with contextlib.suppress(AttributeError):  # custom calls of decompositions die without it
        import_module("jaxlib.lapack")._lapack.initialize()
    return import_module("jaxlib.xla_client").make_cpu_client(num_devices=count)


def main(folder: Path, tokens: Collection[int]) -> None:
    """Compile, run, write."""
    results = execute((folder / "module.pb").read_bytes(), read_arrays(folder, "in"), tokens)
    write_arrays(folder, "out", results)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]])
