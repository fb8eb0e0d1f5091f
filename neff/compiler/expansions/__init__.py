"""Expands operations that the engines lack into graphs of operations that they have."""
