"""The writers of metrics besides `metrics.jsonl`, which `config.yaml` names: where the code of each is."""

from dataclasses import dataclass

from gmi_drl.registry import Registry


@dataclass(frozen=True)
class WriterKind:
    """A writer, as a configuration names it.

    Args:
        name: E.g. "tensorboard".
        writer: `module:class` of the `run.writers.writer.Writer`.
    """

    name: str
    writer: str


TENSORBOARD = WriterKind("tensorboard", "gmi_drl.run.writers.tensorboard:TensorBoard")
WANDB = WriterKind("wandb", "gmi_drl.run.writers.wandb:WeightsAndBiases")
TRACKIO = WriterKind("trackio", "gmi_drl.run.writers.trackio:Trackio")
CSV = WriterKind("csv", "gmi_drl.run.writers.csv:Csv")

WRITERS = Registry("writer", "gmi_drl.writers", (TENSORBOARD, WANDB, TRACKIO, CSV))
"""Third parties add entries of their own by entry points: `NAME = "module:KIND"`, a `WriterKind`."""
