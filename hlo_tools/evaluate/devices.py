"""A module on several devices: every device in its own thread; they meet at each collective."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hlo_tools.evaluate.values import Array, EvaluationError, Value
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module

__all__ = ["ALONE", "MOST_DEVICES", "Device", "on_devices", "partitions_of"]

MOST_DEVICES = 64


class MissingError(EvaluationError):
    """A device waits at a collective for others that end, or wait, elsewhere."""

    default_code = "HLO-COLLECTIVE"


@dataclass(frozen=True, slots=True)
class Device:
    """One device of an evaluation.

    Attributes:
        number: ``replica * partitions + partition``.
        replicas, partitions: how many there are.
        meeting: where it finds the others.
    """

    number: int
    replicas: int
    partitions: int
    meeting: Meeting

    @property
    def replica(self) -> int:
        return self.number // self.partitions

    @property
    def partition(self) -> int:
        return self.number % self.partitions


class Meeting:
    """The exchange of values between devices.

    Attributes:
        count: number of devices.
    """

    def __init__(self, count: int) -> None:
        self._changed = threading.Condition()
        self.count = count
        self._boxes: dict[tuple[int, tuple[int, ...], int], dict[int, list[Value]]] = {}
        self._times: dict[tuple[int, int], int] = {}
        self._waiting: set[int] = set()
        self._ended: set[int] = set()

    def exchange(
        self, key: int, me: int, members: Sequence[int], values: list[Value]
    ) -> list[list[Value]]:
        """Return the members' contributions to the same ``key`` and round, in their order.

        Raises:
            MissingError: the others will never come.
        """
        with self._changed:
            time = self._times[key, me] = self._times.get((key, me), 0) + 1
            box = self._boxes.setdefault((key, tuple(members), time), {})
            box[me] = values
            if len(box) == len(members):
                del self._boxes[key, tuple(members), time]
                self._waiting -= set(members)
                self._changed.notify_all()
            else:
                self._wait(box, me, len(members))
            return [box[member] for member in members]

    def end(self, me: int) -> None:
        """A device needs the others no more."""
        with self._changed:
            self._ended.add(me)
            self._changed.notify_all()

    def _wait(self, box: dict[int, list[Value]], me: int, size: int) -> None:
        self._waiting.add(me)
        self._changed.notify_all()
        while len(box) < size:
            if len(self._waiting | self._ended) == self.count:
                raise MissingError(f"device {me} waits for others that never come")
            self._changed.wait()


ALONE = Device(0, 1, 1, Meeting(1))


def partitions_of(module: Module, devices: int) -> int:
    """Return the number of partitions per replica of a module on a number of devices.

    A program divided by partitions (as ``jax.jit`` makes them) asks for its partition's number, or
    has collectives with channels; one for replicas (as ``jax.pmap`` makes them) has neither.
    """
    for view in module.instructions:
        if view.opcode == "replica-id":
            return 1
        if view.opcode == "partition-id" or (view.proto.channel_id > 0 and not _is_transfer(view)):
            return devices
    return 1


def _is_transfer(view: Instruction) -> bool:
    return view.opcode.startswith(("send", "recv"))


def on_devices(
    run: Callable[[Device, Sequence[object]], list[Array]],
    inputs: Sequence[Sequence[object]],
    partitions: int,
) -> list[list[Array]]:
    """Call ``run`` for every device with its inputs, all at once; the results by device.

    Raises:
        EvaluationError: of the first device that has one, or so many devices cannot be.
    """
    count = len(inputs)
    if not 1 <= count <= MOST_DEVICES or partitions < 1 or count % partitions:
        raise EvaluationError(
            f"{count} devices cannot be evaluated as replicas of {partitions} partitions",
            code="HLO-INPUTS",
            remedy=f"pass inputs for each device, up to {MOST_DEVICES}, replica by replica",
        )
    meeting = Meeting(count)

    def one(number: int) -> list[Array]:
        try:
            return run(Device(number, count // partitions, partitions, meeting), inputs[number])
        finally:
            meeting.end(number)

    with ThreadPoolExecutor(count) as pool:
        running = [pool.submit(one, number) for number in range(count)]
    errors = [error for job in running if (error := job.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, MissingError)):
        raise error
    return [job.result() for job in running]
