"""An API index of the vendor's documentation, read and compared with our public names."""
