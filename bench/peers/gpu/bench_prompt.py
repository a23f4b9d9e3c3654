"""Strobe's attention of a prompt's chunk (keys and values of every head, as --enable-expanded-mla-prefill makes them) beside cuDNN's
and FlashAttention-2's, as PyTorch calls them, on one Hopper GPU: the same numbers through all of them, in one process.

    bench_prompt.py --strobe LIBRARY --output FILE.json [--rows 2048] [--heads 64] [--shapes 192/128,128/128,64/64]
                    [--context 2048,8192,32768]

LIBRARY is build/cuda/bench/peers/gpu/libstrobe_peer.so (scripts/build cuda-release strobe_peer). Needs torch 2.11 or later with
CUDA. The rows stand at the end of the context and see what is before them. PyTorch hands such a chunk to its libraries with a mask
(where rows and context differ: a slow way) or without one, where every row sees all: "seen" says how many (row, position) pairs a
run computes relative to what is asked, "ns a thousand pairs" is what compares them. Errors are against float32 over some heads,
||x - y|| / ||y||. Times: medians of replays of a CUDA graph of four launches; keys and values are larger than the L2 cache.
"""
import argparse
import ctypes
import struct
import sys
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from measuring import measure, write

LAUNCHES, CHECKED_HEADS = 4, 2


class StrobePrompt(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("q", "k", "v", "requests", "out")]
    _fields_ += [(name, ctypes.c_int64) for name in ("rows", "context", "heads", "key_dim", "value_dim")]
    _fields_ += [("scale", ctypes.c_float)]


class Case:
    """[rows or positions, heads, numbers]"""

    def __init__(self, rows: int, heads: int, context: int, key_dim: int, value_dim: int):
        torch.manual_seed(1)
        self.rows, self.heads, self.context, self.key_dim, self.value_dim = rows, heads, context, key_dim, value_dim
        random = lambda count, dim: torch.randn(count, heads, dim, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        self.q, self.k, self.v = random(rows, key_dim), random(context, key_dim), random(context, value_dim)
        self.scale = key_dim ** -0.5

    def pairs(self, causal: bool) -> float:
        all_pairs = self.rows * self.context
        return self.heads * (all_pairs - self.rows * (self.rows - 1) / 2 if causal else all_pairs)

    def rates(self, us: float, causal: bool) -> dict:
        pairs = self.pairs(causal)
        return {"tflops": round(2e-6 * pairs * (self.key_dim + self.value_dim) / us, 1), "seen": round(pairs / self.pairs(True), 3),
                "ns a thousand pairs": round(us * 1e6 / pairs, 3)}

    def exact(self) -> torch.Tensor:
        """Of the first heads, in float32."""
        q, k, v = (x[:, :CHECKED_HEADS].float().transpose(0, 1) for x in (self.q, self.k, self.v))
        scores = q @ k.transpose(1, 2) * self.scale
        last = self.context - self.rows + torch.arange(self.rows, device="cuda")
        scores.masked_fill_(torch.arange(self.context, device="cuda")[None] > last[:, None], float("-inf"))
        return (scores.softmax(-1) @ v).transpose(0, 1)


def strobe(case: Case, library) -> tuple:
    out = torch.empty(case.rows, case.heads, case.value_dim, device="cuda", dtype=torch.bfloat16)
    page = torch.zeros(1, dtype=torch.int32, device="cuda")
    packed = struct.pack("<4iQ", 0, case.rows, case.context - case.rows, case.context, page.data_ptr())
    assert len(packed) == library.strobe_request_bytes()
    requests = torch.frombuffer(bytearray(packed), dtype=torch.uint8).cuda()
    call = StrobePrompt(case.q.data_ptr(), case.k.data_ptr(), case.v.data_ptr(), requests.data_ptr(), out.data_ptr(), case.rows,
                        case.context, case.heads, case.key_dim, case.value_dim, case.scale)

    def launch(kept=(page, requests)):  # whose memory the call points to
        library.strobe_prompt_attention(ctypes.byref(call), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        return out

    return [launch] * LAUNCHES, lambda: launch()[:, :CHECKED_HEADS]


def library_of_torch(case: Case, backend, causal: bool) -> tuple:
    q, k, v = (x.transpose(0, 1)[None].contiguous() for x in (case.q, case.k, case.v))
    square = case.rows == case.context

    def launch():
        with sdpa_kernel(backend):
            mask = causal_lower_right(case.rows, case.context) if causal and not square else None
            return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal and square, scale=case.scale)

    return [launch] * LAUNCHES, lambda: launch()[0].transpose(0, 1)[:, :CHECKED_HEADS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strobe", required=True, type=Path, help="libstrobe_peer.so")
    parser.add_argument("--output", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=64)
    parser.add_argument("--shapes", default="192/128,128/128,64/64", help="numbers of a key / of a value")
    parser.add_argument("--context", default="2048,8192,32768")
    args = parser.parse_args()
    library = ctypes.CDLL(str(args.strobe.resolve()))
    library.strobe_request_bytes.restype = ctypes.c_int64
    rows = []
    for shape in args.shapes.split(","):
        for context in map(int, args.context.split(",")):
            case = Case(args.rows, args.heads, context, *map(int, shape.split("/")))
            exact = case.exact()
            runs = [("Strobe", True, lambda: strobe(case, library))]
            for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FlashAttention-2", SDPBackend.FLASH_ATTENTION)):
                for causal in (True, False):
                    runs.append((f"{name}, {'causal' if causal else 'all seen'}", causal,
                                 lambda backend=backend, causal=causal: library_of_torch(case, backend, causal)))
            for name, causal, make in runs:
                rows.append({"shape": shape, "context": context, **measure(
                    name, make, exact if causal else None, lambda us, causal=causal: case.rates(us, causal))})
                print(rows[-1], flush=True)
            del case, exact
            torch.cuda.empty_cache()
    write(args.output, "Attention of a prompt's last rows, keys and values of every head in bf16, medians of graph replays", rows,
          heads=args.heads, rows_of_chunk=args.rows)


if __name__ == "__main__":
    sys.exit(main())
