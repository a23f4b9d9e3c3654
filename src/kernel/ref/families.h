// The reference kernels, one function a family; what each computes is said at its struct in kernel/args.h.
//
// Read these first: plain loops, nothing clever. Values are f32; sums run in double and are rounded once, so that the
// oracle's own error does not count. The worker pool only splits rows. Unlike the fast kernels these may allocate.
#pragma once

#include "base/worker_pool.h"
#include "kernel/args.h"

namespace strobe::kernel::ref {

void gemm(WorkerPool& pool, const Gemm& call);                   // gemm.cc
void rms_norm(WorkerPool& pool, const RmsNorm& call);            // norm.cc
void rope(WorkerPool& pool, const Rope& call);                   // rope.cc
void silu_mul(WorkerPool& pool, const SiluMul& call);            // elementwise.cc
void embed(WorkerPool& pool, const Embed& call);                 // elementwise.cc
void copy(WorkerPool& pool, const Copy& call);                   // elementwise.cc
void route(WorkerPool& pool, const Route& call);                 // route.cc
void group_by_expert(const GroupByExpert& call);                 // route.cc
void combine(WorkerPool& pool, const Combine& call);             // route.cc
void store_rows(WorkerPool& pool, const StoreRows& call);        // store.cc
void load_rows(WorkerPool& pool, const LoadRows& call);          // store.cc
void mla_attention(WorkerPool& pool, const MlaAttention& call);  // attention.cc
void gqa_attention(WorkerPool& pool, const GqaAttention& call);  // attention.cc
void argmax(WorkerPool& pool, const Argmax& call);               // argmax.cc
void fill_drafts(const FillDrafts& call);                        // blocks.cc
void accept_greedy(const AcceptGreedy& call);                    // blocks.cc
void draw_tokens(WorkerPool& pool, const DrawTokens& call);      // draw.cc

}  // namespace strobe::kernel::ref
