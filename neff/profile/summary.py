"""The figures of a profile as one document."""

from __future__ import annotations

from hlo_tools._gc import no_collection
from neff.profile.analysis import Analysis, analysis_of
from neff.profile.attribution import GROUPINGS, Share, grouped
from neff.profile.stalls import EngineSplit, PathStep, critical_path, engine_splits
from neff.profile.table import SCHEMA, Profile

__all__ = ["summary"]


def summary(profile: Profile | Analysis) -> dict[str, object]:
    """The profile in numbers: total with its range, groupings, each engine's split, critical path."""
    with no_collection():
        return _summary(analysis_of(profile))


def _summary(analysis: Analysis) -> dict[str, object]:
    profile, cells = analysis.profile, analysis.cells
    estimate = profile.estimate
    return {
        "schema": SCHEMA,
        "estimated": True,
        "program": profile.name,
        **estimate.to_json(),
        "by": {name: [_share(share) for share in grouped(cells, name)] for name in GROUPINGS},
        "engines": [
            {"core": core, **_split(split)}
            for core in range(len(estimate.cores))
            for split in engine_splits(profile, core, analysis.gaps[core])
        ],
        "critical_path": [
            {"core": core, **_step(profile, step)}
            for core in range(len(estimate.cores))
            for step in critical_path(profile, core, analysis.paths[core])
        ],
    }


def _us(nanoseconds: float) -> float:
    return round(nanoseconds / 1e3, 3)


def _share(share: Share) -> dict[str, object]:
    return {
        "name": share.name,
        "events": share.events,
        "self_us": _us(share.self_ns),
        "path_us": _us(share.path_ns),
        "waiting_us": _us(share.waiting_ns),
        "bytes": share.nbytes,
        "flops": share.flops,
        "cumulative_us": _us(share.cumulative_ns),
        "cumulative_path_us": _us(share.cumulative_path_ns),
    }


def _split(split: EngineSplit) -> dict[str, object]:
    return {
        "engine": split.engine,
        "busy_us": _us(split.busy_ns),
        "issue_us": _us(split.issue_ns),
        "waiting_us": {cause: _us(waiting_ns) for cause, waiting_ns in split.waiting_ns.items()},
        "idle_us": _us(split.idle_ns),
    }


def _step(profile: Profile, step: PathStep) -> dict[str, object]:
    return {
        "lane": step.lane,
        "opcode": step.opcode,
        "place": profile.sites[step.site].place,
        "op": profile.sites[step.site].op,
        "count": step.count,
        "path_us": _us(step.path_ns),
    }
