"""PJRT's C interface: its tables, and the objects behind the framework's handles."""
