"""nkipy's core: tracing."""
