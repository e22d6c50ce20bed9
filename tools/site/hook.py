"""The hook of mkdocs: adds the generated pages, and the pictures of the results."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tools.site.pages import generated_pages

ROOT = Path(__file__).parents[2]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not in docs/."""
    for name, text in generated_pages().items():
        files.append(File.generated(config, name, content=text))
    for picture in (ROOT / "benchmarks" / "results").glob("*.png"):
        files.append(File.generated(config, f"results/{picture.name}", abs_src_path=str(picture)))
    return files
