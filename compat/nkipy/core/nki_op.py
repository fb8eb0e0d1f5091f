"""``nkipy.core.nki_op``: importing it lets NKI kernels be called while tracing; here they can be."""

__all__: list[str] = []
