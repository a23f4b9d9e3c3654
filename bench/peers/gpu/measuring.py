"""What the scripts beside it share: how launches are timed, and the file with the results."""
import datetime
import json
import sys
from pathlib import Path

import torch


def median_us(launches: list) -> float:
    """Of one launch: the median of 20 replays of a CUDA graph of all, one after the other."""
    for launch in launches[:2]:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    times = []
    for _ in range(22):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / len(launches))
    return sorted(times[2:])[10]


def measure(name: str, make, exact, rates) -> dict:
    """make() -> (launches, result of the first); rates(us): what follows from the time."""
    try:
        launches, result = make()
        out = result().float()
        error = None if exact is None else float((out - exact).norm() / exact.norm())
        us = median_us(launches)
        return {"kernel": name, "us": round(us, 2), **rates(us), "error": error}
    except (RuntimeError, AttributeError, TypeError) as failure:
        return {"kernel": name, "failed": str(failure).splitlines()[0][:200]}


def write(path: Path, what: str, rows: list, **facts) -> None:
    path.write_text(json.dumps({
        "what": what, "machine": torch.cuda.get_device_name(), "torch": torch.__version__,
        "date": datetime.date.today().isoformat(), "command": " ".join(sys.argv), **facts, "rows": rows}, indent=1) + "\n")
