"""Where training runs: the first CUDA GPU in bfloat16, or else the CPU in float32."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COMPUTE = torch.bfloat16 if DEVICE == "cuda" else torch.float32

torch.set_float32_matmul_precision("high")


def amp() -> torch.autocast:
    """Mixed precision on a GPU, nothing on a CPU."""
    return torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda")
