"""Convolutions and pooling: which dimension is on partitions, and how windows are read.

The tensor engine contracts partitions, 128 at a time. A window has channels, rows and columns to
contract, and the shape decides which of them the partitions hold:

``direct``
    Channels are on partitions, one product for each element of the window (tap). All taps read one
    tile of the image at different offsets. Neighboring columns share the partitions that fewer than
    128 channels leave free (``taps`` draws this layout), ``results`` collects the products.
``few_channels``
    Fewer than 16 channels: all elements of a window are contracted together, by a product with a band
    of the weights.
``long_windows``
    The window is larger than the result, as in the gradient by the weights: positions of the window
    are on partitions.
``pooling``
    Sums and extremes of windows: no product; the vector engine reduces overlapping access patterns.

``image_rows`` has the tile that the last three share: rows of the image on partitions. With a window
of 3 rows, a stride of 2 and rows of the result on partitions::

    partition 0:  image rows 0 1 2
    partition 1:  image rows 2 3 4
    partition 2:  image rows 4 5 6

A row of the image that several windows contain is loaded once for each of them, since a partition
cannot read its neighbor.
"""
