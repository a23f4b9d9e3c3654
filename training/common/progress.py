"""Progress output with the time since start, and the budget (minutes or steps) that a training phase runs on."""

import time
from dataclasses import dataclass, field
from pathlib import Path

_START = time.time()
_files: list[Path] = []


def log(*parts) -> None:
    """One line: seconds since start, then the parts; also to the file of log_to()."""
    line = " ".join([f"[{time.time() - _START:7.1f}s]", *map(str, parts)])
    print(line, flush=True)
    for file in _files:
        with open(file, "a") as f:
            f.write(line + "\n")


def log_to(file: Path) -> None:
    """From now on log() also writes to this file, which is started anew; ends the former file, if any."""
    file.write_text("")
    _files[:] = [file]


@dataclass
class Budget:
    """How long a phase lasts: a number of minutes or a number of steps, exactly one of the two.

    Minutes fit a machine that is rented by time, steps make a run repeatable. Schedules ask for `fraction()`.
    """

    minutes: float | None = None
    steps: int | None = None
    step: int = 0
    _began: float = field(default_factory=time.time)

    def __post_init__(self):
        if (self.minutes is None) == (self.steps is None):
            raise ValueError(f"a budget takes minutes or steps, one of them; got {self.minutes} and {self.steps}")
        if (self.minutes or self.steps or 0) <= 0:
            raise ValueError(f"a budget must be positive; got {self.minutes or self.steps}")

    def restart(self) -> None:
        """The phase begins now."""
        self.step, self._began = 0, time.time()

    def fraction(self) -> float:
        """The part that is used up, from 0; the phase is over at 1."""
        return self.step / self.steps if self.steps is not None else self.seconds() / (60 * self.minutes)

    def seconds(self) -> float:
        """Since the budget was made."""
        return time.time() - self._began


def warm_then_decay(budget: Budget, warm_steps: int, decay_from: float, lowest: float) -> float:
    """The learning-rate factor: rises over warm_steps, stays at 1, falls linearly from `decay_from` to `lowest`."""
    fraction = budget.fraction()
    rise = min(1.0, (budget.step + 1) / warm_steps)
    return rise * (1.0 if fraction < decay_from else max(lowest, (1 - fraction) / (1 - decay_from)))
