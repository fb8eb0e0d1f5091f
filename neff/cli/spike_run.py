"""``spike-run``: run a NEFF, as the command of nkipy's runtime library does, on simulated cores."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from neff.runtime.nrt.front import FrontTensor
    from neff.runtime.spike_api import SpikeModel

__all__ = ["main"]

_FAILED = 1
_VISIBLE, _COUNT = "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"


def main(words: Sequence[str] | None = None) -> int:
    """Run ``spike-run`` with ``words`` (the process's arguments when not given).

    Returns:
        The exit code: 0 fine, 1 the NEFF did not load or run, 2 usage.
    """
    chosen = _parser().parse_args(words)
    try:
        if chosen.num_cores > 1:
            _many(chosen)
        else:
            _single(chosen)
    except (OSError, ValueError, RuntimeError, AssertionError) as error:
        print(f"spike-run: {error}", file=sys.stderr)
        if remedy := getattr(error, "remedy", ""):
            print(f"  help: {remedy}", file=sys.stderr)
        return _FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spike-run",
        description="Run a NEFF on simulated NeuronCores; nki-neff run has more.",
    )
    add = parser.add_argument
    add("neff_path", help="the NEFF")
    add(
        "--input",
        "-i",
        action="append",
        dest="inputs",
        default=[],
        metavar="NAME=PATH",
        type=_named,
        help="an input from a .npy file; {rank} in the path is the core's number",
    )
    add(
        "--output-dir",
        "-o",
        type=Path,
        default=Path("."),
        help="folder for NAME.npy of each output",
    )
    add("--verbose", "-v", action="store_true", help="print tensors and files")
    add("--save-trace", action="store_true", help="leave the estimated profile")
    add("--ntff-name", help="name of the profile (default: that of the NEFF)")
    add("--benchmark", action="store_true", help="time the model")
    add("--warmup", type=int, default=5, help="untimed runs first")
    add("--iterations", type=int, default=10, help="timed runs")
    add("--name", help="name of the model (default: the file's)")
    add("--core-id", type=int, default=0, help="the core of a single run")
    add("--cc-enabled", action="store_true", help="collectives, of a single run")
    add("--rank-id", type=int, default=0, help="rank of a single run")
    add("--world-size", type=int, default=1, help="number of ranks of a single run")
    add("--num-cores", type=int, default=1, help="number of cores to run on at once")
    add("--collective", action="store_true", help="collectives between these cores")
    return parser  # fmt: skip


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH")
    return name, path


def _single(chosen: argparse.Namespace) -> None:
    from neff.runtime.spike_api import SpikeModel

    model: SpikeModel = SpikeModel.load_from_neff(
        chosen.neff_path,
        name=chosen.name,
        core_id=chosen.core_id,
        cc_enabled=chosen.cc_enabled,
        rank_id=chosen.rank_id,
        world_size=chosen.world_size,
    )
    _run(model, chosen, chosen.core_id, chosen.output_dir)


def _many(chosen: argparse.Namespace) -> None:
    from neff.runtime.spike_api import SpikeModel

    cores = range(chosen.num_cores)
    _choose_cores(chosen.num_cores)
    models: list[SpikeModel] = [
        SpikeModel.load_from_neff(
            chosen.neff_path,
            name=chosen.name,
            core_id=core,
            cc_enabled=chosen.collective,
            rank_id=core if chosen.collective else 0,
            world_size=chosen.num_cores if chosen.collective else 1,
        )
        for core in cores
    ]
    with ThreadPoolExecutor(chosen.num_cores) as pool:
        runs = [
            pool.submit(_run, model, chosen, core, chosen.output_dir / f"core_{core}")
            for core, model in zip(cores, models, strict=True)
        ]
        for run in runs:
            run.result()


def _choose_cores(count: int) -> None:
    """Make as many cores visible, unless the environment says how many there are.

    Raises:
        ValueError: it says another number.
    """
    from nki_lang.base.visible_cores import core_count

    said = {name: os.environ[name] for name in (_VISIBLE, _COUNT) if os.environ.get(name)}
    if not said:
        os.environ[_VISIBLE] = f"0-{count - 1}"
    elif core_count() != count:
        name, value = next(iter(said.items()))
        raise ValueError(
            f"--num-cores={count} conflicts with {name}={value} ({core_count()} cores); unset it, "
            f"or pass --num-cores={core_count()}"
        )


def _run(model: SpikeModel, chosen: argparse.Namespace, core: int, folder: Path) -> None:
    inputs = _read(chosen.inputs, core)
    _say(chosen, f"core {core}: {model.name}, inputs {model.input_tensors_info}")
    if chosen.benchmark:
        timed = model.benchmark(inputs, warmup_iter=chosen.warmup, benchmark_iter=chosen.iterations)
        _say(chosen, f"core {core}: {timed}")
    outputs = model(inputs, save_trace=chosen.save_trace, ntff_name=chosen.ntff_name)
    folder.mkdir(parents=True, exist_ok=True)
    for name, tensor in (outputs or {}).items():
        path = folder / f"{name.replace('/', '_')}.npy"
        np.save(path, tensor.numpy())
        _say(chosen, f"core {core}: {path} {tensor}")


def _read(inputs: Sequence[tuple[str, str]], core: int) -> dict[str, FrontTensor]:
    from neff.runtime.spike_api import SpikeTensor

    return {
        name: SpikeTensor.from_numpy(
            np.load(path.replace("{rank}", str(core)), allow_pickle=False), name, core_id=core
        )
        for name, path in inputs
    }


def _say(chosen: argparse.Namespace, text: str) -> None:
    if chosen.verbose:
        print(text)
