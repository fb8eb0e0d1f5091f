"""Files: told apart, unpacked, written whole."""
