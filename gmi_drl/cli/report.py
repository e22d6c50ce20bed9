"""`gmi-drl report`."""

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from gmi_drl.cli.output import require_folder, say, write_file
from gmi_drl.errors import UsageError
from gmi_drl.units import counted, human_bytes

if TYPE_CHECKING:
    from gmi_drl.run.run_data import RunData

MOST_FILM_BYTES = 64 * 2**20
RESULT_SUFFIX = ".json"


@click.command()
@click.argument("what", metavar="RUN|RESULT...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("report.html"), help="The page to write.")
@click.option(
    "--film", type=click.Path(path_type=Path), help="A video to show, such as one of `play -o`: .mp4 or .gif."
)
def report(what: tuple[Path, ...], output: Path, film: Path | None) -> None:
    """Write one HTML page about RUNs, or about the trainings of a sweep: layout, curves, phases, versions, commands.

    Or about RESULTs, the files of `gmi-drl bench -o`: measurements, ratios, machine, command. The page needs no
    network and no other file.
    """
    from gmi_drl.results.report.page import FILM_TYPES, page

    require_folder(output)
    if any(path.suffix == RESULT_SUFFIX for path in what):
        write_file(output, _of_results(what, film))
        say(f"Wrote {output} about {counted(len(what), 'result')}: open it in a browser")
        return
    if film is not None and (film.suffix.lower() not in FILM_TYPES or not film.is_file()):
        raise UsageError(f"--film {film}: expected an .mp4 or .gif file that is there")
    if film is not None and (size := film.stat().st_size) > MOST_FILM_BYTES:
        raise UsageError(f"--film {film} has {human_bytes(size)}, at most {human_bytes(MOST_FILM_BYTES)} fit a page")
    read = list({run.path.resolve(): run for path in what for run in _read(path)}.values())
    write_file(output, page(read, film))
    say(f"Wrote {output} about {counted(len(read), 'run')}: open it in a browser")


def _of_results(files: tuple[Path, ...], film: Path | None) -> str:
    """The page about results of `bench`."""
    from gmi_drl.benchmarks.result import load_result
    from gmi_drl.results.report.bench_page import bench_page

    if runs := [str(path) for path in files if path.suffix != RESULT_SUFFIX]:
        raise UsageError(f"{', '.join(runs)}: a page is about runs or about results: write two pages")
    if film is not None:
        raise UsageError(f"--film {film}: is for runs, a result has no film: leave it out")
    return bench_page([load_result(file) for file in files])


def _read(path: Path) -> list["RunData"]:
    """The run in a folder, or the trainings of the sweep in it that have begun."""
    from gmi_drl.launch.sweep.sweep_file import FILE, read_sweep
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.run.metrics import last_row
    from gmi_drl.run.run_data import read_run

    if not (path / FILE).is_file():
        return [read_run(path)]
    folders = [path / trial.name for trial in read_sweep(path).trials]
    begun = [read_run(folder) for folder in folders if last_row(RunFolder(folder).metrics_file)]
    if not begun:
        raise UsageError(f"{path}: no training of this sweep has a row of metrics yet")
    return begun
