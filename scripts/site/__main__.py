"""``python -m scripts.site FOLDER``: builds the site; a warning is an error."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.site.pages import ROOT, api_pages, code_pages, copied

TOC = """
```{{toctree}}
:hidden:
:caption: {title}

{pages}
```
"""
GROUPS = {
    "Begin": "tutorial questions module-life from-neuron from-xla from-nkipy beta1 troubleshooting",
    "Kernels": "language recipes checks simulator published-kernels klir frameworks torch-device extract device",
    "Modules": "modules inspect lint kernels-in-hlo passes numpy-tracing",
    "NEFF": "compiler neff caches neff-format vendor-commands timing profile",
    "Projects": "ci extending stability security",
    "Reference": "api/index codes/index glossary architecture CONTRIBUTING CHANGELOG",
}


def main(output: Path) -> int:
    """Write the pages into a folder and run Sphinx on it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        pages = dict([*copied(), *api_pages(), *code_pages()])
        for title, names in GROUPS.items():
            pages["index.md"] += TOC.format(title=title, pages="\n".join(names.split()))
        for location in ("pictures", "docs/pictures"):  # as the pages in docs/ and README name them
            shutil.copytree(ROOT / "docs/pictures", source / location)
        for path, text in pages.items():
            (source / path).parent.mkdir(exist_ok=True)
            (source / path).write_text(text)
        for name in ("conf.py", "scorer.js"):
            shutil.copy(ROOT / "scripts/site" / name, source)
        sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
        return subprocess.run([*sphinx, str(source), str(output)]).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
