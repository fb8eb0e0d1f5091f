"""Files: read or mapped, identified, unpacked, written atomically.

Other modules use ``content`` (``open_content``, ``read``), ``compression.decompress``, ``detection.detect`` and
``writing`` (``write_bytes``, ``write_stream``). Nothing is imported here: loading writes nothing.
"""
