"""Units over rows: a group of operations whose intermediate values stay in SBUF.

The graph compiler fuses operations that share their outer dimensions (the rows) into a unit. Rows
are on partitions, so that everything along a row (a reduction, a normalization, the product with a
matrix) needs no other partition. A layer normalization of 256 rows of 512 elements is two tiles::

    partition   0:  row   0: [512 elements of x] [mean] [variance] [512 elements of the result]
    partition   1:  row   1: ...
    ...
    partition 127:  row 127: ...                      (the second tile has rows 128 to 255)

The data flow of a unit:

``reaches``, ``row_groups``
    how each operand and result walks over the rows and within a row; what the tiles take in SBUF
``row_kernel``
    the kernel of rows that fit in SBUF; ``long_rows`` has several passes over those that do not
``loads``, ``stores``
    transfers of the tiles; short rows of several tiles share one transfer
``spreads``, ``expressions``, ``comparisons``
    arithmetic on a tile: repeated values, pending steps, and several nodes in one instruction
``row_products``, ``right_batches``, ``over_rows``
    products along a row, and those that contract the rows themselves
``reduction``
    reductions outside of a unit
``elementwise``
    units without rows: any loop nest, tile by tile
"""
