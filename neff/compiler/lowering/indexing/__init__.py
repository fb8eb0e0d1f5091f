"""Operations at runtime indices, and orders of rows: gather, scatter, slices, sorts, greatest elements.

Indices are data, so addresses are computed on the device: GpSimd turns a row of indices into element
offsets, clamps or checks them as HLO defines, and a transfer reads or writes at these offsets. A
gather of rows puts one index on each partition::

    partition   0:  index of result row   0   ->   offset   ->   row of the operand
    partition   1:  index of result row   1   ->   offset   ->   row of the operand

``lowerings``
    one function for each opcode: its dimension numbers become components, strides and bounds
``index_kernels``
    the kernels: few indices are unrolled, many are a loop on the device
``scattered_sums``
    scatters that add, where several updates may have one target
``sorted_rows``
    sorts of rows in SBUF by a network of compare-and-exchange steps
``top_elements``
    the greatest elements of each row, eight at a time
"""
