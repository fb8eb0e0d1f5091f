"""Matrix products outside of units over rows, and attention.

The tensor engine multiplies a stationary matrix of at most 128 x 128 elements with up to 512 moving
columns and adds the result to one bank of PSUM::

    stationary (contraction 128, rows 128)  x  moving (contraction 128, columns 512)
        = PSUM (rows 128 on partitions, columns 512), summed over the blocks of the contraction

``dots``
    the lowering of ``dot``: operands as stacks of matrices, the type in which they are multiplied
``product``
    the general case: blocks of this size, with the operand that is read again kept in SBUF
``few_row_products``
    at most 32 rows for each batch index: four indices share the partitions of PSUM
``attention``
    two products with a softmax between them, whose scores never leave the chip
"""
