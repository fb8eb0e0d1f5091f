"""``python -m scripts.reference``: writes the docstrings of instructions into the sources."""

from scripts.reference.docstrings import files, rewritten

for file in files():
    file.write_text(rewritten(file))
