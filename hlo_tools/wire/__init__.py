"""The protobuf wire format, read without a schema.

Other modules use ``fields``, ``columns`` (``Table``, ``Words``, ``split``, ``varints``), ``distinct``,
``damage.explain`` and ``large_constants``. Nothing is imported here: loading needs two of them.
"""
