"""Files: read or mapped, told apart, unpacked, written whole.

Other rooms use ``content`` (``open_content``, ``read``), ``compression.decompress``, ``detection.detect`` and
``writing`` (``write_bytes``, ``write_stream``). Nothing is imported here: loading writes nothing.
"""
