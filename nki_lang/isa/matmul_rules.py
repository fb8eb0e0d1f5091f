"""The rules of the matrix products."""

from __future__ import annotations

from nki_lang.isa.call import CheckedCall
from nki_lang.isa.constraints import scale_fits
from nki_lang.isa.enums import matmul_perf_mode, nc_version
from nki_lang.isa.rules import custom, free_elements

_FLOATS = frozenset({"float32", "tfloat32"})
_FP8 = frozenset({"float8_e4m3", "float8_e5m2", "float8_e4m3fn"})


def _double_row(call: CheckedCall) -> bool:
    return call["perf_mode"] is matmul_perf_mode.double_row


@custom("NKI-MATMUL-SHAPE",
        "stationary is (K, M), moving (K, N), dst (M, N); with double_row stationary is (K, 2, M)"
        " and moving (K, 2, N)", "nisa.nc_matmul, Layout")  # fmt: skip
def matmul_layout(call: CheckedCall) -> str:
    stationary, moving, dst = call["stationary"], call["moving"], call["dst"]
    shapes = ", ".join(call.describe(name) for name in ("dst", "stationary", "moving"))
    if stationary.shape[0] != moving.shape[0]:
        return shapes
    rows, columns = free_elements(stationary), free_elements(moving)
    if _double_row(call):
        if stationary.shape[1] != 2 or moving.shape[1] != 2:
            return shapes
        rows, columns = rows // 2, columns // 2
    if dst.shape[0] != rows or free_elements(dst) != columns:
        return shapes
    return ""


@custom("NKI-MATMUL-SIZE",
        "K and M are at most 128 (or the tile_size); N at most 512, on trn3 4096 for float32 and"
        " 8192 for bfloat16", "nisa.nc_matmul, Tile size")  # fmt: skip
def matmul_size(call: CheckedCall) -> str:
    stationary, moving = call["stationary"], call["moving"]
    rows, columns = call["tile_size"] or (128, 128)
    half = 2 if _double_row(call) else 1
    if stationary.shape[0] > rows or free_elements(stationary) // half > columns:
        return f"{call.describe('stationary')}, tile_size={(rows, columns)}"
    limit = 512
    if call.generation >= nc_version.gen4:
        limit = 8192 if call.dtype("dst") == "bfloat16" else 4096
    if free_elements(moving) // half > limit:
        return call.describe("moving")
    return ""


@custom("NKI-PSUM-BANK", "the result of one matmul lies within one PSUM bank (2 KiB a partition)",
        "nki/guides/architecture/trainium_inferentia2_arch.rst:789; nl.tile_size.psum_bank_fmax")  # fmt: skip
def matmul_bank(call: CheckedCall) -> str:
    dst = call["dst"]
    if call.generation >= nc_version.gen4 or dst.runtime_index is not None:
        return ""
    first = dst.free_byte_offset
    if dst.storage.address is not None:
        first += dst.storage.address[1]
    span = sum(
        abs(step) * (extent - 1)
        for step, extent in zip(dst.strides[1:], dst.shape[1:], strict=True)
    )
    last = first + span * dst.dtype.itemsize + dst.dtype.itemsize - 1
    if first // 2048 != last // 2048:
        return f"{call.describe('dst')} covers bytes {first} to {last} of its partitions"
    return ""


@custom("NKI-DTYPE", "float32 goes with float32 only, legacy float8_e4m3 not with float8_e4m3fn,"
        " dst is float32 (on trn3 also bfloat16; transposes keep the dtype)",
        "nisa.nc_matmul, Data types")  # fmt: skip
def matmul_dtypes(call: CheckedCall) -> str:
    left, right, dst = call.dtype("stationary"), call.dtype("moving"), call.dtype("dst")
    pair = f"{call.describe('stationary')}, {call.describe('moving')}"
    if (left in _FLOATS) != (right in _FLOATS):
        return pair
    if {left, right} == {"float8_e4m3", "float8_e4m3fn"}:
        return pair
    if "float8_e4m3fn" in (left, right) and call.generation < nc_version.gen4:
        return f"{pair} before trn3"
    if call["is_transpose"]:
        return (
            "" if dst in (left, right, "float32", "bfloat16", "float16") else call.describe("dst")
        )
    allowed = ("float32", "bfloat16") if call.generation >= nc_version.gen4 else ("float32",)
    return "" if dst in allowed else call.describe("dst")


@custom("NKI-PERF-MODE", "double_row takes float8 tiles, on trn2 and later, without column tiling",
        "nisa.nc_matmul, Performance mode")  # fmt: skip
def matmul_perf(call: CheckedCall) -> str:
    if not _double_row(call):
        return ""
    if call.generation < nc_version.gen3:
        return "perf_mode=double_row on trn1"
    if not {call.dtype("stationary"), call.dtype("moving")} <= _FP8:
        return f"{call.describe('stationary')}, {call.describe('moving')}"
    size = call["tile_size"]
    return f"tile_size={size}" if size and size[1] != 128 else ""


@custom("NKI-PE-TILE", "tile_position and tile_size are set together; sizes are 32 (trn2 and"
        " later), 64 or 128, and a position is a multiple of its size", "nisa.nc_matmul, Tiling mode")  # fmt: skip
def matmul_tiling(call: CheckedCall) -> str:
    position, size = call["tile_position"], call["tile_size"]
    if not position and not size:
        return ""
    if not position or not size or len(position) != 2 or len(size) != 2:
        return f"tile_position={position!r}, tile_size={size!r}"
    sizes = (64, 128) if call.generation < nc_version.gen3 else (32, 64, 128)
    for start, extent in zip(position, size, strict=True):
        if extent not in sizes or start % extent or start + extent > 128:
            return f"tile_position={position!r}, tile_size={size!r}"
    return ""


@custom("NKI-MX", "stationary is (K, M), moving (K, N), dst (M, N); K a multiple of 32, M even and"
        " at most 128, N at most 4096 for float32 and 8192 for bfloat16; a scale has the columns of"
        " its data and a row for each 8 partitions; only rows are tiled", "nisa.nc_matmul_mx")  # fmt: skip
def matmul_mx_layout(call: CheckedCall) -> str:
    stationary, moving, dst = call["stationary"], call["moving"], call["dst"]
    shapes = ", ".join(call.describe(name) for name in ("dst", "stationary", "moving"))
    rows, columns = free_elements(stationary), free_elements(moving)
    if stationary.shape[0] != moving.shape[0] or stationary.shape[0] % 32:
        return shapes
    limit = 8192 if dst.dtype.name == "bfloat16" else 4096
    if rows % 2 or rows > 128 or columns > limit:
        return shapes
    if dst.shape[0] != rows or free_elements(dst) != columns:
        return shapes
    if (call["tile_size"] and call["tile_size"][1] != 128) or (
        call["tile_position"] and call["tile_position"][1]
    ):
        return f"tile_position={call['tile_position']}, tile_size={call['tile_size']}"
    for name, data in (("stationary_scale", stationary), ("moving_scale", moving)):
        if not scale_fits(call[name], data):
            return f"{call.describe(name)} for {shapes}"
    return ""
