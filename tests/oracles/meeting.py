"""Registers, cores and ranks: what each instruction does, told with lists."""

import functools

import numpy as np

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.targets import target_of
from nki_lang.execute import run_ranks, simulate
from nki_lang.kernel import Kernel

PAIR = ncc.ReplicaGroup([[0, 1, 2], [3, 4]])
GROUPS = [[0, 1, 2], [3, 4]]


def number(register):
    """A register's value in HBM."""
    tile = nl.ndarray((1, 1), nl.int32, nl.sbuf)
    nisa.register_store(tile, register)
    out = nl.ndarray((1, 1), nl.int32, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def both_ways(kernel, *arrays, grid=(), target="trn2"):
    """Return the kernel's results; the eager simulator and the executor agree on them."""
    kernel_object = Kernel(kernel, target=target_of(target), grid=grid)
    eager, fast = simulate(kernel_object)(*arrays), kernel_object(*arrays)
    np.testing.assert_array_equal(eager, fast)
    return eager


def register_alloc():
    """A register begins with its value."""
    for value in (0, 5, -7, 2**31 - 1, -(2**31)):
        assert both_ways(lambda v=value: number(nisa.register_alloc(v))).tolist() == [[value]]


def register_move():
    """A number, and another register."""

    def kernel():
        first, second = nisa.register_alloc(1), nisa.register_alloc(2)
        nisa.register_move(first, 40)
        nisa.register_move(second, first)
        return number(second + 2)

    assert both_ways(kernel).tolist() == [[42]]


def register_load():
    """One element of SBUF or HBM, sign included."""

    def kernel(x):
        register, second = nisa.register_alloc(), nisa.register_alloc()
        nisa.register_load(register, nl.load(x)[0:1, 2:3])
        nisa.register_load(second, x[0:1, 1:2])
        return number(register * 100 + second)

    for kind in (np.int32, np.int8, np.uint16):
        x = np.array([[1, 3, 7]], kind)
        assert both_ways(kernel, x).tolist() == [[703]]
    assert both_ways(kernel, np.array([[1, -3, -7]], np.int32)).tolist() == [[-703]]


def register_store():
    """The value as an element of the tile's dtype."""

    def kernel():
        tile = nl.ndarray((1, 1), nl.int16, nl.sbuf)
        nisa.register_store(tile, nisa.register_alloc(-12))
        out = nl.ndarray((1, 1), nl.int16, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    assert both_ways(kernel).tolist() == [[-12]]


def scalar_load():
    """Arithmetic on an element of HBM wraps at 32 bits."""

    def kernel(x):
        scalar = nisa.scalar_load(x)
        tile = nl.ndarray((1, 1), nl.int32, nl.sbuf)
        nisa.scalar_store(tile, scalar * scalar - (1 - scalar) + (+scalar) * 2)
        return stored(tile)

    for value in (3, -8, 100000, 2**31 - 1):
        exact = value * value - (1 - value) + value * 2
        expected = (exact + 2**31) % 2**32 - 2**31
        assert both_ways(kernel, np.array([[value]], np.int32)).tolist() == [[expected]]


def stored(tile):
    """A tile of one number in HBM."""
    out = nl.ndarray((1, 1), nl.int32, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def scalar_store():
    """A scalar in SBUF, negated."""

    def kernel(x):
        tile = nl.load(x)
        nisa.scalar_store(tile, -nisa.scalar_load(tile))
        return stored(tile)

    for value in (5, -7):
        assert both_ways(kernel, np.array([[value]], np.int32)).tolist() == [[-value]]


def core_barrier():
    """A core reads after the barrier what the other core wrote before it."""

    def kernel(x):
        out = nl.ndarray((2, 4), nl.float32, nl.shared_hbm)
        middle = nl.ndarray((2, 4), nl.float32, nl.shared_hbm)
        core = nl.program_id(0)
        tile = nl.ndarray((1, 4), nl.float32, nl.sbuf)
        nisa.dma_copy(tile, x[core : core + 1])
        nisa.dma_copy(middle[core : core + 1], tile)
        nisa.core_barrier(middle, (0, 1))
        nisa.dma_copy(tile, middle[1 - core : 2 - core])
        nisa.dma_copy(out[core : core + 1], tile)
        return out

    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert both_ways(kernel, x, grid=(2,)).tolist() == [[4, 5, 6, 7], [0, 1, 2, 3]]


def sendrecv():
    """Both cores swap tiles."""

    def kernel(x):
        out = nl.ndarray((2, 4), nl.float32, nl.shared_hbm)
        core = nl.program_id(0)
        tile, received = (nl.ndarray((1, 4), nl.float32, nl.sbuf) for _ in range(2))
        nisa.dma_copy(tile, x[core : core + 1])
        nisa.sendrecv(tile, received, 1 - core, 1 - core, 0)
        nisa.tensor_tensor(received, received, tile, nl.subtract)
        nisa.dma_copy(out[core : core + 1], received)
        return out

    x = np.array([[1, 2, 3, 4], [10, 20, 30, 40]], np.float32)
    assert both_ways(kernel, x, grid=(2,)).tolist() == [[9, 18, 27, 36], [-9, -18, -27, -36]]


def sendrecv_compute():
    """Both cores get the reduction of both tiles."""

    def kernel(x, op):
        out = nl.ndarray((2, 4), nl.float32, nl.shared_hbm)
        core = nl.program_id(0)
        tile, total = (nl.ndarray((1, 4), nl.float32, nl.sbuf) for _ in range(2))
        nisa.dma_copy(tile, x[core : core + 1])
        nisa.sendrecv_compute(tile, total, 1 - core, 1 - core, op)
        nisa.dma_copy(out[core : core + 1], total)
        return out

    x = np.array([[1, 2, 30, 4], [10, 20, 3, 40]], np.float32)
    for op, row in ((nl.add, [11, 22, 33, 44]), (nl.maximum, [10, 20, 30, 40]),
                    (nl.minimum, [1, 2, 3, 4])):  # fmt: skip
        result = both_ways(functools.partial(kernel, op=op), x, grid=(2,))
        assert result.tolist() == [row, row]


def rand_set_state():
    """The state that is read back is the one that was set."""

    def kernel(x):
        nisa.rand_set_state(nl.load(x))
        tile = nl.ndarray((4, 6), nl.uint32, nl.sbuf)
        nisa.rand_get_state(tile)
        out = nl.ndarray((4, 6), nl.uint32, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    x = np.arange(24, dtype=np.uint32).reshape(4, 6) * 178956970
    assert both_ways(kernel, x).tolist() == x.tolist()


def set_rng_seed():
    """Equal seeds give equal numbers, others do not."""

    def kernel(x):
        tiles = []
        for column in range(3):
            nisa.set_rng_seed(nl.load(x)[0:1, column : column + 1])
            tile = nl.ndarray((8, 16), nl.uint32, nl.sbuf)
            nisa.rng(tile)
            tiles.append(tile)
        out = nl.ndarray((24, 16), nl.uint32, nl.shared_hbm)
        for position, tile in enumerate(tiles):
            nisa.dma_copy(out[8 * position : 8 * position + 8], tile)
        return out

    draws = both_ways(kernel, np.array([[5, 5, 6]], np.int32)).reshape(3, -1).tolist()
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) > 120


def ranks(body, inputs, shape, target="trn2"):
    """The result of each rank, the kernel traced once; eager ranks agree."""

    def kernel(x):
        out = nl.ndarray(shape, x.dtype, nl.shared_hbm)
        private = nl.ndarray(x.shape, x.dtype, nl.hbm)
        result = nl.ndarray(shape, x.dtype, nl.hbm)
        nisa.dma_copy(private, x)
        nisa.dma_copy(result, out_of(x.dtype, shape))
        body(private, result)
        nisa.dma_copy(out, result)
        return out

    traced = Kernel(kernel, target=target_of(target)).ir(inputs[0])
    return [result[0].tolist() for result in run_ranks(traced, [[x] for x in inputs])]


def out_of(dtype, shape):
    """A constant that stands in the destination before."""
    return nl.shared_constant(np.full(shape, 99, dtype.dtype))


def tables(rows=6, columns=2):
    """A different integer table for each of five ranks."""
    return [np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) + 100 * r
            for r in range(5)]  # fmt: skip


def group_of(rank):
    """The ranks of a rank's group."""
    return next(group for group in GROUPS if rank in group)


def all_reduce():
    """Element by element over the group."""
    inputs = tables(2)
    for op, fold in ((nl.add, sum), (nl.maximum, max), (nl.minimum, min)):
        results = ranks(lambda a, b, op=op: ncc.all_reduce([a], [b], PAIR, op), inputs, (2, 2))
        for rank, table in enumerate(results):
            parts = [inputs[r].tolist() for r in group_of(rank)]
            assert table == [[fold(p[i][j] for p in parts) for j in range(2)] for i in range(2)]


def all_gather():
    """One behind the other (groups of equal size here)."""
    group = ncc.ReplicaGroup([[0, 2], [3, 1]])
    inputs = tables(2)[:4]
    results = ranks(lambda a, b: ncc.all_gather([a], [b], group, 0), inputs, (4, 2))
    for rank, table in enumerate(results):
        members = [0, 2] if rank in (0, 2) else [3, 1]
        assert table == [row for r in members for row in inputs[r].tolist()]


def reduce_scatter():
    """Each rank its part of the sum."""
    group = ncc.ReplicaGroup([[0, 1, 2]])
    inputs = tables(6)[:3]
    results = ranks(lambda a, b: ncc.reduce_scatter([a], [b], group, 0, nl.add), inputs, (2, 2))
    for rank, table in enumerate(results):
        expected = [
            [sum(x.tolist()[2 * rank + i][j] for x in inputs) for j in range(2)] for i in range(2)
        ]
        assert table == expected


def all_to_all():
    """Part j of rank i becomes part i of rank j."""
    group = ncc.ReplicaGroup([[0, 1, 2]])
    inputs = tables(6)[:3]
    results = ranks(lambda a, b: ncc.all_to_all([a], [b], group, 0), inputs, (6, 2))
    for rank, table in enumerate(results):
        assert table == [row for x in inputs for row in x.tolist()[2 * rank : 2 * rank + 2]]


def collective_permute():
    """By pairs; who gets nothing keeps what it had."""
    inputs = tables(2)[:4]
    results = ranks(lambda a, b: ncc.collective_permute([a], [b], [(0, 2), (2, 3), (3, 0)]), inputs,
                  (2, 2))  # fmt: skip
    source = {2: 0, 3: 2, 0: 3}
    for rank, table in enumerate(results):
        expected = inputs[source[rank]].tolist() if rank in source else [[99, 99], [99, 99]]
        assert table == expected


def collective_permute_implicit():
    """Each gets what the one before it in the ring has."""
    group = ncc.ReplicaGroup([[0, 2, 1]])
    inputs = tables(2)[:3]
    results = ranks(
        lambda a, b: ncc.collective_permute_implicit([[a]], [[b]], group), inputs, (2, 2)
    )
    before = {2: 0, 1: 2, 0: 1}
    assert results == [inputs[before[rank]].tolist() for rank in range(3)]


def collective_permute_implicit_reduce():
    """Each gets the sum of the two tensors of the one before it."""
    group = ncc.ReplicaGroup([[0, 1, 2]])
    inputs = tables(2)[:3]
    results = ranks(lambda a, b: ncc.collective_permute_implicit_reduce([[a]], [[a]], [[b]], group, nl.add),
                  inputs, (2, 2))  # fmt: skip
    assert results == [
        [[2 * x for x in row] for row in inputs[rank - 1].tolist()] for rank in range(3)
    ]


def ring_number():
    """Whose data is at hand in each step of a ring."""
    group = ncc.ReplicaGroup([[0, 2, 1]])

    def kernel(x):
        first = ncc.collective_permute_implicit_current_processing_rank_id(1, group)
        return number(first * 10 + ncc.rank_id())

    traced = Kernel(kernel, target=target_of("trn2")).ir(np.zeros((1, 1), np.float32))
    results = run_ranks(traced, [[np.zeros((1, 1), np.float32)]] * 3)
    before = {0: 1, 2: 0, 1: 2}
    assert [r[0].item() for r in results] == [10 * before[rank] + rank for rank in range(3)]


def variable(call, counts, starts, length):
    """A collective of pieces of different length: the destination, and the counts received."""
    size = len(counts)
    group = ncc.ReplicaGroup([list(range(size))])

    def kernel(x, metadata):
        private = nl.ndarray(x.shape, x.dtype, nl.hbm)
        table = nl.ndarray(metadata.shape, nl.uint32, nl.hbm)
        result = nl.ndarray((length * size,), x.dtype, nl.hbm)
        nisa.dma_copy(private, x)
        nisa.dma_copy(table, metadata)
        nisa.dma_copy(result, out_of(x.dtype, (length * size,)))
        call([private], [result], group, table)
        out = nl.ndarray((length * size,), x.dtype, nl.shared_hbm)
        after = nl.ndarray(metadata.shape, nl.uint32, nl.shared_hbm)
        nisa.dma_copy(out, result)
        nisa.dma_copy(after, table)
        return out, after

    inputs = [np.arange(12, dtype=np.float32) + 100 * r for r in range(size)]
    tables_ = [np.array([counts[r], starts[r], [7] * size], np.uint32) for r in range(size)]
    traced = Kernel(kernel, target=target_of("trn2")).ir(inputs[0], tables_[0])
    return inputs, run_ranks(traced, [[x, t] for x, t in zip(inputs, tables_, strict=True)])


def two_steps(op):
    """A variable collective that is prepared before its sources and its metadata change."""
    prepare, trigger = getattr(ncc, f"{op}_prepare"), getattr(ncc, f"{op}_trigger")

    def call(sources, targets, group, metadata):
        data = nl.ndarray(sources[0].shape, sources[0].dtype, nl.hbm)
        prepared = prepare([data], targets, group, metadata)
        nisa.dma_copy(metadata, nl.zeros(metadata.shape, nl.uint32))
        nisa.dma_copy(data, sources[0])
        assert isinstance(trigger(prepared), nisa.NkiInstruction)

    return call


def all_to_all_v():
    """Rank r sends counts[r][s] elements from starts[r][s] on to rank s, into slots."""
    counts, starts = [[2, 0, 3], [1, 4, 0], [3, 2, 1]], [[0, 5, 9], [3, 4, 0], [1, 6, 11]]
    for call in (ncc.all_to_all_v, two_steps("all_to_all_v")):
        inputs, results = variable(call, counts, starts, 4)
        _check_all_to_all_v(inputs, results, counts, starts)


def _check_all_to_all_v(inputs, results, counts, starts):
    for rank, (out, table) in enumerate(results):
        expected = [99.0] * 12
        for sender in range(3):
            begin, count = starts[sender][rank], counts[sender][rank]
            expected[4 * sender : 4 * sender + count] = inputs[sender].tolist()[
                begin : begin + count
            ]
        assert out.tolist() == expected
        assert table[2].tolist() == [counts[sender][rank] for sender in range(3)]


def all_gather_v():
    """Rank r sends one piece to all, into slots."""
    counts, starts = [[2, 0, 0], [4, 0, 0], [1, 0, 0]], [[3, 0, 0], [0, 0, 0], [11, 0, 0]]
    for call in (ncc.all_gather_v, two_steps("all_gather_v")):
        inputs, results = variable(call, counts, starts, 4)
        _check_all_gather_v(inputs, results, counts, starts)


def _check_all_gather_v(inputs, results, counts, starts):
    for out, table in results:
        expected = [99.0] * 12
        for sender in range(3):
            begin, count = starts[sender][0], counts[sender][0]
            expected[4 * sender : 4 * sender + count] = inputs[sender].tolist()[
                begin : begin + count
            ]
        assert out.tolist() == expected
        assert table[2].tolist() == [line[0] for line in counts]


INSTRUCTIONS = [core_barrier, rand_set_state, register_alloc, register_load, register_move,
                register_store, scalar_load, scalar_store, sendrecv, sendrecv_compute,
                set_rng_seed]  # fmt: skip
COLLECTIVES = {
    **{f.__name__: f for f in (all_gather, all_gather_v, all_reduce, all_to_all, all_to_all_v,
                               collective_permute, collective_permute_implicit,
                               collective_permute_implicit_reduce, reduce_scatter)},
    **dict.fromkeys(("all_gather_v_prepare", "all_gather_v_trigger"), all_gather_v),
    **dict.fromkeys(("all_to_all_v_prepare", "all_to_all_v_trigger"), all_to_all_v),
    "rank_id": ring_number,
    "collective_permute_implicit_current_processing_rank_id": ring_number,
}  # fmt: skip
