// What touches each number once: rotation, the gated activation, look-ups, copies, stores, sums of experts' outputs.
// A thread has one piece of four numbers of a row.
#include "kernel/cuda/generic.h"
#include "kernel/cuda/generic/launch.cuh"
#include "kernel/cuda/generic/numbers.cuh"

namespace strobe::kernel::cuda {
namespace {

constexpr int kThreads = 128;

// This thread's row and first column; false behind the last.
struct Piece {
  int64_t row;
  int64_t column;
};
__device__ bool my_piece(int64_t rows, int64_t columns, int per_thread, Piece* piece) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t pieces = (columns + per_thread - 1) / per_thread;
  piece->row = index / pieces;
  piece->column = index % pieces * per_thread;
  return piece->row < rows;
}

template <class... Params, class... Args>
void launch_pieces(const char* name, void (*kernel)(Params...), int64_t rows, int64_t columns, int per_thread,
                   cudaStream_t stream, const Args&... args) {
  if (rows == 0 || columns == 0) return;
  const int64_t threads = rows * ((columns + per_thread - 1) / per_thread);
  launch(name, kernel, blocks_for(threads, kThreads), kThreads, 0, stream, args...);
}

__global__ void __launch_bounds__(kThreads) rope_kernel(Rope call) {
  wait_for_launch_ahead();
  let_next_launch_begin();
  const int64_t half = call.dim / 2;
  Piece at;
  if (!my_piece(call.rows, call.heads * half, 1, &at)) return;
  const int64_t head = at.column / half;
  const int64_t i = at.column % half;
  const int64_t angle = call.positions[at.row] * half + i;
  const float cos = call.cos[angle];
  const float sin = call.sin[angle];
  float* x = call.x + at.row * call.row_stride + head * call.head_stride;
  const bool interleaved = call.style == RopeStyle::kInterleaved;
  float* first = x + (interleaved ? 2 * i : i);
  float* second = x + (interleaved ? 2 * i + 1 : i + half);
  const float a = *first;
  const float b = *second;
  *first = fmaf(a, cos, -(b * sin));
  *second = fmaf(b, cos, a * sin);
}

__device__ float silu_times(float gate, float up) {
  return gate / (1.0F + expf(-gate)) * up;
}

__global__ void __launch_bounds__(kThreads) silu_mul_kernel(SiluMul call, bool aligned) {
  wait_for_launch_ahead();
  let_next_launch_begin();
  Piece at;
  if (!my_piece(call.rows, call.dim, 4, &at)) return;
  const auto read = [&](const Rows& rows) {
    return read_4_guarded(rows.data, rows.dtype, at.row * rows.stride, at.column, call.dim, aligned);
  };
  const float4 g = read(call.gate);
  const float4 u = read(call.up);
  const float4 y = {silu_times(g.x, u.x), silu_times(g.y, u.y), silu_times(g.z, u.z), silu_times(g.w, u.w)};
  write_4_guarded(call.y.data, call.y.dtype, at.row * call.y.stride, at.column, call.dim, aligned, y);
}

__global__ void __launch_bounds__(kThreads)
    copy_kernel(Rows x, const int32_t* x_rows, Rows y, int64_t rows, int64_t dim, bool aligned) {
  wait_for_launch_ahead();
  let_next_launch_begin();
  Piece at;
  if (!my_piece(rows, dim, 4, &at)) return;
  const int64_t from = x_rows == nullptr ? at.row : x_rows[at.row];
  const float4 v = read_4_guarded(x.data, x.dtype, from * x.stride, at.column, dim, aligned);
  write_4_guarded(y.data, y.dtype, at.row * y.stride, at.column, dim, aligned, v);
}

__global__ void __launch_bounds__(kThreads) store_rows_kernel(StoreRows call, bool aligned) {
  wait_for_launch_ahead();
  let_next_launch_begin();
  Piece at;
  if (!my_piece(call.rows, call.dim, 4, &at)) return;
  const int64_t slot = call.slots[at.row];
  if (slot < 0) return;
  float4 v = read_4_guarded(call.x.data, call.x.dtype, at.row * call.x.stride, at.column, call.dim, aligned);
  const PagedStore& store = call.store;
  if (store.dtype == DType::kE4m3) {
    v = {__fdiv_rn(v.x, store.scale), __fdiv_rn(v.y, store.scale), __fdiv_rn(v.z, store.scale),
         __fdiv_rn(v.w, store.scale)};
  }
  const int64_t start = slot * store.dim + call.column;
  write_4_guarded(store.data, store.dtype, start, at.column, call.dim, aligned, v);
}

__global__ void __launch_bounds__(kThreads) load_rows_kernel(LoadRows call, bool aligned) {
  wait_for_launch_ahead();
  let_next_launch_begin();
  Piece at;
  if (!my_piece(call.rows, call.dim, 4, &at)) return;
  const PagedStore& store = call.store;
  const int64_t page = at.row / store.page_size;
  const int64_t slot = int64_t{call.pages[page]} * store.page_size + at.row % store.page_size;
  float4 v =
      read_4_guarded(store.data, store.dtype, slot * store.dim + call.column, at.column, call.dim, aligned);
  if (store.dtype == DType::kE4m3) v = {v.x * store.scale, v.y * store.scale, v.z * store.scale, v.w * store.scale};
  for (int64_t c = 0; c < call.copies; ++c) {
    const int64_t start = at.row * call.y.stride + c * call.copy_stride;
    write_4_guarded(call.y.data, call.y.dtype, start, at.column, call.dim, aligned, v);
  }
}

__global__ void __launch_bounds__(kThreads) combine_kernel(Combine call, bool aligned) {
  wait_for_launch_ahead();
  let_next_launch_begin();
  Piece at;
  if (!my_piece(call.rows, call.dim, 4, &at)) return;
  float4 sum = {0, 0, 0, 0};
  for (int64_t k = 0; k < call.top_k; ++k) {
    const int64_t choice = at.row * call.top_k + k;
    const float weight = call.weights[choice];
    const int64_t start = int64_t{call.slots[choice]} * call.dim;
    const float4 x = read_4_guarded(call.x, DType::kF32, start, at.column, call.dim, aligned);
    sum = {fmaf(weight, x.x, sum.x), fmaf(weight, x.y, sum.y), fmaf(weight, x.z, sum.z), fmaf(weight, x.w, sum.w)};
  }
  const int64_t start = at.row * call.y.stride;
  const float4 y = read_4_guarded(call.y.data, call.y.dtype, start, at.column, call.dim, aligned);
  sum = {y.x + sum.x, y.y + sum.y, y.z + sum.z, y.w + sum.w};
  write_4_guarded(call.y.data, call.y.dtype, start, at.column, call.dim, aligned, sum);
}

void launch_copy(const char* name, const Rows& x, const int32_t* x_rows, const Rows& y, int64_t rows, int64_t dim,
                 cudaStream_t stream) {
  launch_pieces(name, copy_kernel, rows, dim, 4, stream, x, x_rows, y, rows, dim, vectors_of_4(x) && vectors_of_4(y));
}

}  // namespace

void rope(const Rope& call, cudaStream_t stream) {
  launch_pieces("rope", rope_kernel, call.rows, call.heads * (call.dim / 2), 1, stream, call);
}

void silu_mul(const SiluMul& call, cudaStream_t stream) {
  const bool aligned = vectors_of_4(call.gate) && vectors_of_4(call.up) && vectors_of_4(call.y);
  launch_pieces("silu_mul", silu_mul_kernel, call.rows, call.dim, 4, stream, call, aligned);
}

void embed(const Embed& call, cudaStream_t stream) {
  const Rows table{.data = const_cast<void*>(call.table.data),
                   .dtype = call.table.format == WeightFormat::kF32 ? DType::kF32 : DType::kBf16,
                   .stride = call.table.in};
  launch_copy("embed", table, call.ids, call.y, call.rows, call.table.in, stream);
}

void copy(const Copy& call, cudaStream_t stream) {
  launch_copy("copy", call.x, nullptr, call.y, call.rows, call.dim, stream);
}

void store_rows(const StoreRows& call, cudaStream_t stream) {
  const PagedStore& store = call.store;
  const bool aligned =
      vectors_of_4(call.x) && vectors_of(4, store.data, store.dtype, store.dim) && call.column % 4 == 0;
  launch_pieces("store_rows", store_rows_kernel, call.rows, call.dim, 4, stream, call, aligned);
}

void load_rows(const LoadRows& call, cudaStream_t stream) {
  const PagedStore& store = call.store;
  const bool aligned =
      vectors_of_4(call.y) && vectors_of(4, store.data, store.dtype, store.dim) && call.column % 4 == 0 &&
      call.copy_stride % 4 == 0;
  launch_pieces("load_rows", load_rows_kernel, call.rows, call.dim, 4, stream, call, aligned);
}

void combine(const Combine& call, cudaStream_t stream) {
  const bool aligned = vectors_of(4, call.x, DType::kF32, call.dim) && vectors_of_4(call.y);
  launch_pieces("combine", combine_kernel, call.rows, call.dim, 4, stream, call, aligned);
}

}  // namespace strobe::kernel::cuda
