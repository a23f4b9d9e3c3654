"""NVFP4: 4-bit floats (e2m1) with an e4m3 scale per 16 values and one float32 scale per tensor.

value = e2m1(code) * block_scale * global_scale, with global_scale = amax / (6 * 448): the largest block scale is then
448, the largest e4m3 number, and the largest code value 6. A code is a sign bit (8) and an index into LEVELS. Two codes
share a byte, the even index in the low nibble. This is the layout of NVIDIA's modelopt checkpoints.
"""

import torch

LEVELS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
BLOCK = 16
E4M3_MAX = 448.0
_MIN_SCALE = 2.0**-9  # the smallest positive e4m3 number; a block of zeros gets it, so that nothing is divided by zero


def _scaled(w: torch.Tensor, dims: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(w in units of its scales [..., n/16, 16] clamped to +-6, block scales e4m3 [..., n/16], global scale).

    dims: the dimensions that share a global scale.
    """
    if w.shape[-1] % BLOCK:
        raise ValueError(f"NVFP4 needs rows of a multiple of {BLOCK} values, got shape {tuple(w.shape)}")
    w = w.float()
    amax = w.abs().amax(dim=dims, keepdim=True)
    global_scale = amax.clamp(min=torch.finfo(torch.float32).tiny) / (6.0 * E4M3_MAX)
    blocks = w.unflatten(-1, (-1, BLOCK))
    scale = (blocks.abs().amax(-1) / 6.0 / global_scale).clamp(min=_MIN_SCALE, max=E4M3_MAX).to(torch.float8_e4m3fn)
    q = blocks / (scale.float() * global_scale).unsqueeze(-1)
    return q.clamp(-6.0, 6.0), scale, global_scale


def _round_e2m1(q: torch.Tensor) -> torch.Tensor:
    """The nearest e2m1 values of q in [-6, 6]; ties go to the even code."""
    a = q.abs()
    step = torch.where(a < 2, 0.5, torch.where(a < 4, 1.0, 2.0))
    return torch.copysign(torch.round(a / step) * step, q)


def quantise(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """w [out, in] -> (packed codes uint8 [out, in/2], block scales e4m3 [out, in/16], global scale float32 scalar)."""
    q, scale, global_scale = _scaled(w, dims=tuple(range(w.dim())))
    q = _round_e2m1(q).flatten(-2)
    code = torch.bucketize(q.abs(), LEVELS.to(q.device)).to(torch.uint8) | (torch.signbit(q).to(torch.uint8) << 3)
    return code[..., 0::2] | (code[..., 1::2] << 4), scale, global_scale.reshape(())


def dequantise(packed: torch.Tensor, scale: torch.Tensor, global_scale: torch.Tensor) -> torch.Tensor:
    """The float32 values [out, in] of what quantise() returned."""
    code = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
    values = LEVELS.to(code.device)[(code & 7).long()] * (1 - 2 * (code >> 3).float())
    return (values.unflatten(-1, (-1, BLOCK)) * (scale.float() * global_scale).unsqueeze(-1)).flatten(-2)


def fake_quantise(w: torch.Tensor) -> torch.Tensor:
    """w [experts, out, in] rounded to NVFP4, a global scale for each expert; the gradient passes straight through."""
    with torch.no_grad():
        q, scale, global_scale = _scaled(w, dims=(1, 2))
        rounded = (_round_e2m1(q) * (scale.float() * global_scale).unsqueeze(-1)).flatten(-2).to(w.dtype)
    return w + (rounded - w).detach()


def fake_e4m3(x: torch.Tensor) -> torch.Tensor:
    """x rounded to e4m3 with scale 1, as an fp8_e4m3 cache stores it; the gradient passes straight through."""
    with torch.no_grad():
        rounded = x.float().clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).to(x.dtype)
    return x + (rounded - x).detach()
