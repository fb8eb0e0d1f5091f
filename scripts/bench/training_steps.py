"""Programs of any size to measure with: training steps of a transformer, and a chain.

JAX traces one step (four layers, attention, Adam), about 1,900 instructions in 100 computations;
larger modules are that step unrolled: each takes the parameters that the one before gave.
"""

from __future__ import annotations

from typing import Any

from hlo_tools import Module, array_shape, load
from hlo_tools.schema import HloModuleProto
from hlo_tools.types.ids import LOCAL_MASK, wide

__all__ = ["chain", "one_step", "training_steps"]

Message = Any
WIDTH, HEADS, LAYERS, VOCABULARY = 256, 8, 4, 1000


def one_step() -> bytes:
    """The HloModuleProto of one step, as JAX lowers it."""
    import jax
    import jax.numpy as jnp

    def of(*dimensions: int) -> Any:
        return jax.ShapeDtypeStruct(dimensions, jnp.float32)

    layer = {
        "qkv": of(WIDTH, 3 * WIDTH), "out": of(WIDTH, WIDTH), "up": of(WIDTH, 4 * WIDTH),
        "down": of(4 * WIDTH, WIDTH), "g1": of(WIDTH), "b1": of(WIDTH), "g2": of(WIDTH),
        "b2": of(WIDTH),
    }  # fmt: skip
    parameters = {"embed": of(VOCABULARY, WIDTH), "layers": [layer] * LAYERS}
    tokens = jax.ShapeDtypeStruct((4, 65), jnp.int32)
    lowered = jax.jit(_step).lower(parameters, parameters, parameters, tokens)
    return lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()


def _normalize(x: Any, gain: Any, bias: Any) -> Any:
    import jax
    import jax.numpy as jnp

    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * gain + bias


def _attention(weights: Any, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    batch, length, width = x.shape

    def by_head(tensor: Any) -> Any:
        return tensor.reshape(batch, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)

    query, key, value = map(by_head, jnp.split(x @ weights["qkv"], 3, axis=-1))
    score = jnp.einsum("bhqd,bhkd->bhqk", query, key) / jnp.sqrt(width / HEADS)
    score = jnp.where(jnp.tril(jnp.ones((length, length), bool)), score, -1e9)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(score), value)
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ weights["out"]


def _loss(weights: Any, tokens: Any) -> Any:
    import jax
    import jax.numpy as jnp

    x = weights["embed"][tokens[:, :-1]]
    for layer in weights["layers"]:
        x = x + _attention(layer, _normalize(x, layer["g1"], layer["b1"]))
        inner = jax.nn.gelu(_normalize(x, layer["g2"], layer["b2"]) @ layer["up"])
        x = x + inner @ layer["down"]
    scores = jax.nn.log_softmax(x @ weights["embed"].T)
    return -jnp.mean(jnp.take_along_axis(scores, tokens[:, 1:, None], -1))


def _step(weights: Any, first: Any, second: Any, tokens: Any) -> Any:
    import jax
    import jax.numpy as jnp

    loss, slope = jax.value_and_grad(_loss)(weights, tokens)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slope)
    weights = jax.tree.map(
        lambda w, m, v: w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), weights, first, second
    )
    return weights, first, second, loss


def chain(count: int) -> bytes:
    """``count`` instructions with metadata one after another, every third one used by nobody."""
    shape = array_shape("f32", (128, 256))
    module = Module.new("chain")
    body = module.add_computation("main")
    value = body.add("parameter", shape, name="x")
    for number in range(count - 1):
        result = body.add("tanh" if number % 2 else "negate", shape, [value])
        result.proto.metadata.op_name = f"jit(chain)/layer_{number // 50}/op"
        result.proto.metadata.source_file, result.proto.metadata.source_line = (
            "chain.py",
            number % 90,
        )
        value = value if number % 3 == 2 else result
    body.set_root(value)
    return module.to_bytes()


def training_steps(step: bytes, size: int) -> bytes:
    """Steps one after another, as many as have about ``size`` instructions.

    Args:
        step: what :func:`one_step` gives; its results are its parameters but the last, in order,
            and one more.
    """
    source = load(step).proto
    rows = sum(len(row.instructions) for row in source.computations)
    count = max(1, round(size / rows))
    unrolled = HloModuleProto()
    unrolled.CopyFrom(source)
    del unrolled.computations[:]
    unroll = _Unrolling(source, unrolled)
    for number in range(count):
        unroll.step(number)
    unroll.finish()
    return unrolled.SerializeToString(deterministic=True)


class _Unrolling:
    def __init__(self, source: Message, unrolled: Message) -> None:
        self.source, self.unrolled = source, unrolled
        self.stride = max(row.id for row in source.computations) + 1
        self.entry = next(r for r in source.computations if r.id == source.entry_computation_id)
        self.body = type(self.entry)()
        self.body.CopyFrom(self.entry)
        del self.body.instructions[:]
        self.parameters: dict[int, int] = {}
        self.arguments: list[int] = []
        self.next = 0

    def step(self, number: int) -> None:
        """Append one more step: clones of the called computations, then the entry's own rows."""
        for row in self.source.computations:
            if row.id != self.entry.id:
                self._called(row, number)
        local: dict[int, int] = {}
        root = None
        for row in self.entry.instructions:
            if row.opcode == "parameter":
                local[row.id & LOCAL_MASK] = self._parameter(row)
            elif row.id == self.entry.root_id:
                root = row
            else:
                local[row.id & LOCAL_MASK] = self._row(row, number, local)
        assert root is not None
        self.root = root
        self.arguments = [local[i & LOCAL_MASK] for i in root.operand_ids]

    def _called(self, row: Message, number: int) -> None:
        copy = self.unrolled.computations.add()
        copy.CopyFrom(row)
        copy.id = row.id + number * self.stride
        copy.name = f"{row.name}.s{number}"
        copy.root_id = wide(copy.id, row.root_id & LOCAL_MASK)
        for inst in copy.instructions:
            inst.name = f"{inst.name}.s{number}"
            inst.id = wide(copy.id, inst.id & LOCAL_MASK)
            operands = [wide(copy.id, i & LOCAL_MASK) for i in inst.operand_ids]
            inst.operand_ids[:] = operands
            called = [i + number * self.stride for i in inst.called_computation_ids]
            inst.called_computation_ids[:] = called

    def _parameter(self, row: Message) -> int:
        """The place of a parameter: of the first step its own, later the result before it."""
        number = row.parameter_number
        if number < len(self.arguments) - 1:
            return self.arguments[number]
        if number not in self.parameters:
            self.parameters[number] = self._row(row, 0, {})
        return self.parameters[number]

    def _row(self, row: Message, number: int, local: dict[int, int]) -> int:
        copy = self.body.instructions.add()
        copy.CopyFrom(row)
        copy.name = f"{row.name}.s{number}"
        copy.id = wide(self.entry.id, self.next)
        self.next += 1
        copy.operand_ids[:] = [wide(self.entry.id, local[i & LOCAL_MASK]) for i in row.operand_ids]
        called = [i + number * self.stride for i in row.called_computation_ids]
        copy.called_computation_ids[:] = called
        return copy.id & LOCAL_MASK

    def finish(self) -> None:
        """The results of the last step are the module's."""
        local = {
            i & LOCAL_MASK: argument
            for i, argument in zip(self.root.operand_ids, self.arguments, strict=True)
        }
        self.body.root_id = wide(self.entry.id, self._row(self.root, 0, local))
        self.unrolled.computations.add().CopyFrom(self.body)
