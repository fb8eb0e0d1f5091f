"""``nkipy.distributed.collectives``: operations between replicas."""

from hlo_tools.trace.collectives import all_gather, all_reduce, all_to_all, reduce_scatter

__all__ = ["all_gather", "all_reduce", "all_to_all", "reduce_scatter"]
