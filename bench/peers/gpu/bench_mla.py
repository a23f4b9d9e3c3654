"""Strobe's MLA verify kernel beside FlashMLA and FlashAttention-3 on one Hopper GPU: the same queries, pages and page tables
through all of them, in one process.

    bench_mla.py --strobe LIBRARY --peers FOLDER --output FILE.json [--batch 1,8] [--context 1024,8192,32768,131072]

LIBRARY is build/cuda/bench/peers/gpu/libstrobe_peer.so (scripts/build cuda-release strobe_peer). FOLDER holds three shared
objects of the vllm 0.33.0 wheel: _flashmla_C.abi3.so, _flashmla_extension_C.abi3.so, _vllm_fa3_C.abi3.so; a peer whose file is
missing is left out. Needs torch 2.11 or later with CUDA.

The cache is e4m3 for Strobe and for FlashMLA fp8 (which takes queries in e4m3 as well), and the same numbers in bf16 for the
peers that know no fp8 cache. Errors are against float32 attention over those numbers with the bf16 queries, ||x - y|| / ||y||.
Times: medians of replays of a CUDA graph of as many launches as it takes for each to find its pages outside the L2 cache,
combine included.
"""
import argparse
import ctypes
import math
import struct
import sys
from pathlib import Path

import torch

from measuring import measure, write

HEAD_DIM, LATENT, PAGE = 576, 512, 64
SCALE = 1 / math.sqrt(192)  # 128 + 64 numbers a head before absorption
COLD_BYTES = 3e8  # of pages between two visits of the same one


class StrobeMla(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("q", "pages", "requests", "out", "workspace")]
    _fields_ += [(name, ctypes.c_int64) for name in ("rows", "request_count", "heads")]
    _fields_ += [("scale", ctypes.c_float)]


class Case:
    """One batch of verify blocks: queries, pages as fp8 and as the same numbers in bf16, and several page tables."""

    def __init__(self, batch: int, context: int, tokens: int, heads: int):
        self.batch, self.context, self.tokens, self.heads = batch, context, tokens, heads
        each = batch * (context // PAGE)
        self.copies = max(4, min(64, int(COLD_BYTES / (each * PAGE * HEAD_DIM)) + 1))
        torch.manual_seed(1)
        self.fp8 = torch.randn(self.copies * each, PAGE, HEAD_DIM, device="cuda").to(torch.float8_e4m3fn)
        self.bf16 = self.fp8.to(torch.bfloat16)
        self.q = torch.randn(batch, tokens, heads, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
        self.lengths = torch.full((batch,), context, dtype=torch.int32, device="cuda")
        self.tables = [torch.randperm(each, device="cuda").view(batch, -1).int() + i * each for i in range(self.copies)]

    def operations(self) -> float:
        return 2.0 * self.heads * self.tokens * self.context * (HEAD_DIM + LATENT) * self.batch

    def exact(self) -> torch.Tensor:
        """Over the first table, in float32."""
        outs = []
        for b in range(self.batch):
            keys = self.bf16[self.tables[0][b].long()].reshape(-1, HEAD_DIM)[: self.context].float()
            scores = torch.einsum("thd,nd->htn", self.q[b].float(), keys) * SCALE
            position = torch.arange(self.context, device="cuda")
            last = self.context - self.tokens + torch.arange(self.tokens, device="cuda")
            scores.masked_fill_(position[None, None] > last[None, :, None], float("-inf"))
            outs.append(torch.einsum("htn,nd->thd", scores.softmax(-1), keys[:, :LATENT]))
        return torch.stack(outs)


def strobe(case: Case, library) -> list:
    rows = case.batch * case.tokens
    out = torch.empty(case.batch, case.tokens, case.heads, LATENT, device="cuda", dtype=torch.bfloat16)
    size = library.strobe_mla_workspace_bytes(rows, case.batch, case.heads)
    workspace = torch.zeros(size, device="cuda", dtype=torch.uint8)
    launches = []
    for table in case.tables:
        packed = b"".join(
            struct.pack("<4iQ", b * case.tokens, case.tokens, case.context - case.tokens, case.context, table[b].data_ptr())
            for b in range(case.batch))
        assert len(packed) == case.batch * library.strobe_request_bytes()
        requests = torch.frombuffer(bytearray(packed), dtype=torch.uint8).cuda()
        call = StrobeMla(case.q.data_ptr(), case.fp8.data_ptr(), requests.data_ptr(), out.data_ptr(), workspace.data_ptr(),
                         rows, case.batch, case.heads, SCALE)

        def launch(call=call, kept=(requests, workspace)):  # whose memory the call points to
            library.strobe_mla_decode(ctypes.byref(call), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            return out

        launches.append(launch)
    return launches


def flash_mla(case: Case) -> list:
    plan = [None, None]

    def launch(table):
        out, _, plan[0], plan[1] = torch.ops._flashmla_C.dense_decode_fwd(
            case.q, case.bf16.unsqueeze(2), LATENT, case.lengths, table, SCALE, True, plan[0], plan[1], None)
        return out

    return [lambda table=table: launch(table) for table in case.tables]


def flash_mla_fp8(case: Case) -> list:
    ops = torch.ops._flashmla_extension_C
    q, one = case.q.to(torch.float8_e4m3fn), torch.ones(1, device="cuda")
    plan, splits = ops.get_mla_decoding_metadata_dense_fp8(case.lengths, case.tokens * case.heads, 1)
    return [lambda table=table: ops.fwd_kvcache_mla_fp8(q, case.fp8.unsqueeze(2), LATENT, case.lengths, table, SCALE, True,
                                                        plan, splits, one, one)[0] for table in case.tables]


def flash_attention_3(case: Case) -> list:
    starts = torch.arange(0, (case.batch + 1) * case.tokens, case.tokens, dtype=torch.int32, device="cuda")
    rope, latent = case.bf16[..., LATENT:].unsqueeze(2), case.bf16[..., :LATENT].unsqueeze(2)
    rows = case.batch * case.tokens
    q_latent = case.q[..., :LATENT].reshape(rows, case.heads, LATENT).contiguous()
    q_rope = case.q[..., LATENT:].reshape(rows, case.heads, HEAD_DIM - LATENT).contiguous()

    def launch(table):
        out = torch.ops._vllm_fa3_C.fwd(
            q_rope, rope, latent, None, None, q_latent, None, starts, None, None, None, case.lengths, case.tokens,
            case.context, table, None, None, None, None, None, None, None, None, SCALE, True, -1, -1, 0.0, True, None, 0, None,
            0, None, 1, 0, None)[0]
        return out.view(case.batch, case.tokens, case.heads, LATENT)

    return [lambda table=table: launch(table) for table in case.tables]


def peers_of(folder: Path) -> list:
    found = []
    for file, name, make in (("_flashmla_C", "FlashMLA bf16", flash_mla), ("_vllm_fa3_C", "FlashAttention-3 MLA bf16", flash_attention_3),
                             ("_flashmla_extension_C", "FlashMLA fp8", flash_mla_fp8)):
        paths = list(folder.rglob(f"{file}*.so"))
        if paths:
            torch.ops.load_library(str(paths[0]))
            found.append((name, make))
        else:
            print(f"{name}: no {file}*.so in {folder}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strobe", required=True, type=Path, help="libstrobe_peer.so")
    parser.add_argument("--peers", required=True, type=Path, help="folder with the peers' shared objects")
    parser.add_argument("--output", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--context", default="1024,8192,32768,131072")
    parser.add_argument("--tokens", type=int, default=8, help="of a request, as a verify pass has them")
    parser.add_argument("--heads", type=int, default=64)
    args = parser.parse_args()
    library = ctypes.CDLL(str(args.strobe.resolve()))
    for function in (library.strobe_request_bytes, library.strobe_mla_workspace_bytes):
        function.restype = ctypes.c_int64
    library.strobe_mla_workspace_bytes.argtypes = [ctypes.c_int64] * 3
    kernels = [("Strobe", lambda case: strobe(case, library)), *peers_of(args.peers)]
    rows = []
    for batch in map(int, args.batch.split(",")):
        for context in map(int, args.context.split(",")):
            case = Case(batch, context, args.tokens, args.heads)
            exact = case.exact() if batch * context <= 65536 else None
            for name, make in kernels:
                def prepare(make=make):
                    launches = make(case)
                    return launches, launches[0]

                rates = lambda us: {"tflops": round(case.operations() / us * 1e-6, 1)}
                rows.append({"batch": batch, "context": context, **measure(name, prepare, exact, rates)})
                print(rows[-1], flush=True)
            del case, exact
            torch.cuda.empty_cache()
    write(args.output, "MLA verify, fp8 or bf16 pages of 64, medians of graph replays with cold L2, combine included", rows,
          heads=args.heads, tokens=args.tokens)


if __name__ == "__main__":
    main()
