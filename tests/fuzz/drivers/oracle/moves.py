"""How copies, transposes, gathers and what cores send are drawn; no operands, no operation."""

from __future__ import annotations

from tests.fuzz.drivers.oracle.maker import Maker
from tests.fuzz.drivers.oracle.program import Access, ByCore, Step

__all__ = [
    "dma_compute", "dma_copy", "dma_transpose", "exchanged", "gather", "gather_of_groups",
    "rows_of_hbm", "sent", "shuffle", "tensor_copy", "transpose",
]  # fmt: skip


def tensor_copy(make: Maker) -> None:
    source = make.source()
    if source is None:
        return
    src, region = source
    same = make.chance.random() < 0.6
    dtype = make.dtype_of(src) if same else make.dtype()
    dst = make.target_of(region.shape, dtype, reads=(src,))
    engine = make.chance.choice((None, None, "nisa.engine.vector", "nisa.engine.scalar"))
    if make.target == "trn1" and engine == "nisa.engine.scalar":
        engine = None
    make.emit("tensor_copy", {"dst": dst, "src": src}, engine=engine)


def dma_copy(make: Maker) -> None:
    """Between SBUF and HBM, any partition to any."""
    source = make.source(memories=("sbuf", "hbm", "argument"), engine=False)
    if source is None:
        return
    src, region = source
    memory = make.chance.choice(("sbuf", "sbuf", "hbm"))
    dtype = make.dtype_of(src)
    if memory == "hbm" and dtype == "tfloat32":
        dtype = "float32"
    if len(region.shape) < 2 and memory == "sbuf":
        return
    if memory == "sbuf" and region.shape[0] > 128:
        return
    dst = make.target_of(
        region.shape, dtype, memory=memory, engine=False, reads=(src,), aligned=False
    )
    make.emit("dma_copy", {"dst": dst, "src": src})


def transpose(make: Maker) -> None:
    source = make.source(memories=("sbuf",), rank=2)
    if source is None:
        return
    data, region = source
    rows, columns = region.shape
    dtype = make.dtype_of(data)
    if max(rows, columns) > 32 or dtype == "tfloat32":
        return
    dst = make.target_of((columns, rows), dtype, memory="sbuf", reads=(data,), aligned=False)
    make.emit("nc_transpose", {"dst": dst, "data": data}, engine="nisa.engine.vector")


def _indices(make: Maker, shape: tuple[int, int], dtype: str, limit: int) -> Access:
    argument = make.tensor(shape, dtype, "argument", (0, limit))
    tile = Access(make.tensor(shape, dtype, "sbuf"))
    if make.chance.random() < 0.97:  # else it is read before anything is written
        make.emit("dma_copy", {"dst": tile, "src": Access(argument)})
    return tile


def gather(make: Maker) -> None:
    """Each partition from its own elements."""
    source = make.source(memories=("sbuf",), rank=2)
    if source is None:
        return
    data, region = source
    rows, columns = region.shape
    indices = _indices(make, (rows, make.chance.randint(1, 6)), "uint32", columns)
    dtype = make.dtype_of(data)
    dst = make.target_of(
        make.tensors[indices.tensor].shape, dtype, memory="sbuf", reads=(data,), aligned=False
    )
    make.emit("nc_n_gather", {"dst": dst, "data": data, "indices": indices})


def gather_of_groups(make: Maker) -> None:
    """Each 16 partitions by the indices that lie in them."""
    source = make.source(memories=("sbuf",), rank=2)
    if source is None or source[1].shape[0] % 16:
        return
    data, region = source
    rows, columns = region.shape
    size = make.chance.choice([size for size in (1, 2, 4) if size <= columns])
    count = make.chance.randint(1, 2)
    indices = _indices(make, (rows, count), "uint16", columns - size + 1)
    dst = make.target_of(
        (rows, 16 * count * size), make.dtype_of(data), memory="sbuf", reads=(data,), aligned=False
    )
    make.emit("local_gather", {"dst": dst, "src_buffer": data, "index": indices},
              num_elem_per_idx=size)  # fmt: skip


def shuffle(make: Maker) -> None:
    source = make.source(memories=("sbuf",))
    if source is None or source[1].shape[0] not in (32, 64):
        return
    src, region = source
    dst = make.target_of(
        region.shape, make.dtype_of(src), memory="sbuf", reads=(src,), aligned=False
    )
    mask = [make.chance.choice((255, *range(32))) for _ in range(32)]
    make.emit("nc_stream_shuffle", {"dst": dst, "src": src}, shuffle_mask=mask)


def dma_compute(make: Maker) -> None:
    source = make.source(memories=("sbuf",), engine=False)
    if source is None:
        return
    src, region = source
    further = [make.like(region) or source for _ in range(make.chance.randint(1, 2))]
    reads = (src, *(access for access, _ in further))
    dst = make.target_of(
        region.shape, make.dtype(), memory="sbuf", engine=False, reads=reads, aligned=False
    )
    sources = {f"srcs{number}": access for number, access in enumerate(reads)}
    make.emit("dma_compute", {"dst": dst, **sources}, reduce_op="nl.add")


def dma_transpose(make: Maker) -> None:
    source = make.source(dtypes=("bfloat16", "float16"), memories=("sbuf",), engine=False, rank=2)
    if source is None or source[1].shape[1] > 128:  # of which the transposed tile has too many rows
        return
    src, region = source
    dst = make.target_of(
        region.shape[::-1], make.dtype_of(src), memory="sbuf", engine=False, reads=(src,),
        aligned=False,
    )  # fmt: skip
    make.emit("dma_transpose", {"dst": dst, "src": src}, axes=(1, 0))


def rows_of_hbm(make: Maker) -> None:
    """Rows of a tensor in HBM by an index tile, read or written."""
    names = [
        tensor.name for tensor in make.tensors.values()
        if tensor.memory in ("hbm", "argument") and len(tensor.shape) == 2 and tensor.shape[0] > 1
    ]  # fmt: skip
    if not names:
        return
    table = make.tensors[make.chance.choice(names)]
    rows, columns = table.shape
    count = make.chance.randint(2, min(rows, 128))
    indices = _indices(make, (count, 1), "int32", rows)
    step = make.chance.choice((
        Step("vector_select", (0, indices)),
        Step("ap", (((columns, count), (1, columns)), 0, ("vector_offset", indices))),
    ))  # fmt: skip
    view = Access(table.name, (step,))
    if table.memory == "hbm" and make.chance.random() < 0.4:
        src = make.source(
            dtypes=(table.dtype,), memories=("sbuf",), engine=False, shape=(count, columns)
        )
        if src is not None:
            make.emit("dma_copy", {"dst": view, "src": src[0]})
            return
    dst = make.target_of((count, columns), table.dtype, memory="sbuf", engine=False)
    make.emit("dma_copy", {"dst": dst, "src": view})


def sent(make: Maker) -> None:
    """Elements sent to the other core, often with some that nothing wrote."""
    source = make.source(memories=("sbuf",), partly=make.chance.random() < 0.5)
    if source is None:
        return
    src, region = source
    dst = make.target_of(
        region.shape, make.dtype_of(src), memory="sbuf", reads=(src,), aligned=False
    )
    make.sent.append(dst.tensor)
    make.emit("sendrecv", {"src": src, "dst": dst}, send_to_rank="1 - core",
              recv_from_rank="1 - core", pipe_id=0)  # fmt: skip


def exchanged(make: Maker) -> None:
    """By shared memory, with a barrier between writing and reading."""
    source = make.source(memories=("sbuf",), engine=False)
    if source is None:
        return
    src, region = source
    dtype = make.dtype_of(src)
    if dtype == "tfloat32":
        return
    shared = make.tensor((2, *region.shape), dtype, "shared")
    full = tuple(("slice", 0, extent) for extent in region.shape)
    local, received = (
        Access(shared, (Step("index", (("at", ByCore(values)), *full)),))
        for values in ((0, 1), (1, 0))
    )
    make.emit("dma_copy", {"dst": local, "src": src})
    make.emit("core_barrier", {"data": Access(shared)}, cores=(0, 1))
    dst = make.target_of(region.shape, dtype, memory="sbuf", engine=False)
    make.emit("dma_copy", {"dst": dst, "src": received})
