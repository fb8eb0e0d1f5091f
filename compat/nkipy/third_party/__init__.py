"""nkipy's copies of other projects' formats."""
