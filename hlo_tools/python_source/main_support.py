# pyright: basic, reportArgumentType=false
"""Functions that the ``main`` of every generated file calls: inputs and results.

The file is read, not imported, as ``jax_support.py``.
"""

from __future__ import annotations

import numpy as np


def input_values(parameters, files, recorded, seed):
    """The arrays of the parameters: from files, as recorded, or random.

    Random ones are those of ``nki-hlo evaluate --fill random``: normal floats, integers 0 and 1.
    """
    names = [name for name, _, _ in parameters]
    arrays = dict(recorded if seed is None else {})
    for position, text in enumerate(files):
        name, equals, path = text.partition("=")
        content = np.load(path if equals else text)
        if isinstance(content, np.ndarray):
            content = {name if equals else names[min(position, len(names) - 1)]: content}
        arrays.update(content)
    if foreign := sorted(arrays.keys() - set(names)):
        raise SystemExit(f"there is no parameter {foreign[0]!r}; they are {', '.join(names)}")
    random = np.random.default_rng(seed or 0)
    values = []
    for name, extents, dtype in parameters:
        dtype = np.dtype(dtype)
        if name not in arrays and (dtype.kind == "b" or "int" in dtype.name):
            value = random.integers(0, 2, extents).astype(dtype)
        elif name not in arrays:
            value = np.asarray(random.standard_normal(extents)).astype(dtype)
        else:
            value = np.asarray(arrays[name])
        if (
            dtype.kind not in "biufc"
            and value.dtype.kind in "Vu"
            and value.itemsize == dtype.itemsize
        ):
            value = value.view(dtype)
        if value.dtype != dtype or value.shape != extents:
            raise SystemExit(f"{name} is {dtype}{extents}, the file has {value.dtype}{value.shape}")
        values.append(value)
    return values


def show_results(arrays, output):
    """Print the results; write them to an archive, types that NumPy has not as their bits."""
    results = {f"output{number}": np.asarray(array) for number, array in enumerate(arrays)}
    for name, value in results.items():
        print(f"{name}  {value.dtype}{list(value.shape)}\n{value}")
    if output:
        plain = {
            name: value if value.dtype.isbuiltin == 1 else value.view(f"u{value.itemsize}")
            for name, value in results.items()
        }
        np.savez(output, **plain)
