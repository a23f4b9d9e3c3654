// PTX instructions that CUDA C++ has no names for, one function each, and nothing that is not used. All of them exist
// from sm_90 on; what only sm_90a has is in sm90/wgmma.cuh.
#pragma once

#include <cstdint>

namespace strobe::kernel::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- mbarrier: a barrier in shared memory, waited for by phase parity -----------------------------------------------

__device__ inline void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// After mbarrier_init, before the copy engine or other threads use the barrier.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// One arrival, and `bytes` more that bulk copies must bring before the phase ends.
__device__ inline void mbarrier_arrive_expect_bytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// Waits until the phase of this parity is over (a fresh barrier is in phase 0: waiting for parity 1 returns at once).
__device__ inline void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// --- bulk copies ---------------------------------------------------------------------------------------------------

// `bytes` (a multiple of 16, both ends aligned to 16) from global to shared memory; the barrier hears of them.
__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

// The box at these coordinates (innermost first) of a three-dimensional tensor map to shared memory, aligned to 1024
// bytes; what lies outside of the tensor is zeros, and the barrier hears of the whole box.
__device__ inline void tensor_load(void* to, const void* map, int c0, int c1, int c2, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared_address(to)),
      "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(shared_address(barrier))
      : "memory");
}

// Asks for `bytes` (a multiple of 16, aligned to 16) in L2.
__device__ inline void bulk_prefetch(const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// --- copies of 16 bytes from global to shared memory, both ends aligned to 16
// ------------------------------------------

// Zeros if not `wanted`: then nothing is read.
__device__ inline void copy_16(uint32_t to, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(wanted ? 16 : 0) : "memory");
}

// One of the arrivals that the barrier was made for, once all of this thread's copies so far are there.
__device__ inline void mbarrier_arrive_when_copied(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Asks for the 32 bytes around an address in L2. Nothing is read: what another kernel is still writing may be asked
// for.
__device__ inline void prefetch_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// Writes of this thread to shared memory become visible to the copy engine and the tensor cores (after the next
// barrier among threads).
__device__ inline void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Four 8 x 8 matrices of 16-bit numbers into shared memory: lane l holds columns 2 (l % 4) and the next of row l / 4 of
// matrix i in values[i], and gives the address of row l % 8 of matrix l / 8.
__device__ inline void stmatrix_4(uint32_t address, const uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(values[0]),
               "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

// The other way: lane l is given those of row l / 4 of each matrix.
__device__ inline void ldmatrix_4(uint32_t address, uint32_t (&values)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(address)
               : "memory");
}

// And transposed: lane l is given what rows 2 (l % 4) and the next hold in column l / 4.
__device__ inline void ldmatrix_4_transposed(uint32_t address, uint32_t (&values)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(address)
               : "memory");
}

__device__ inline int lane_id() {
  int lane = 0;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// True in one lane of the warp, all of which call this: cheaper than a comparison of lanes where registers are scarce.
__device__ inline bool elect_lane() {
  int elected = 0;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(elected) : : "memory");
  return elected != 0;
}

// --- barriers among some warps of a block --------------------------------------------------------------------------

__device__ inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ inline void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// named_barrier_sync that also tells whether `mine` holds for any of the threads.
__device__ inline bool named_barrier_any(int id, int threads, bool mine) {
  int any = 0;
  asm volatile(
      "{\n.reg .pred mine, any;\n"
      "setp.ne.b32 mine, %3, 0;\n"
      "barrier.cta.red.or.pred any, %1, %2, mine;\n"
      "selp.b32 %0, 1, 0, any;\n}"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(static_cast<int>(mine))
      : "memory");
  return any != 0;
}

// --- launches of which one may begin before the one ahead of it has ended -------------------------------------------

// Until the launch ahead is over and what it wrote is visible.
__device__ inline void wait_for_launch_ahead() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// The next launch may begin as far as there is room: once all blocks of threads of this one have called this.
__device__ inline void let_next_launch_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace strobe::kernel::cuda
