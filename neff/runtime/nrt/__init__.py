"""The vendor's runtime interface over our own: what ``spike`` and ``nrtpy`` stand on."""
