"""Parts of the old compiler package that tests import."""
