"""nkipy's distributed operations."""
