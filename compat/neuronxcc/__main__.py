"""``python -m neuronxcc``: the command ``neuronx-cc``."""

import sys

from neuronxcc.driver.CommandDriver import main

if __name__ == "__main__":
    sys.exit(main())
