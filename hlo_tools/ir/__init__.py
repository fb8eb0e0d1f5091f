"""The module and its parts as views over messages: read, edited, loaded, saved."""
