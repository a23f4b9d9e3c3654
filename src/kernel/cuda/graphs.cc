#include "kernel/cuda/graphs.h"

#include "base/log.h"
#include "kernel/cuda/launch.h"

namespace strobe::kernel::cuda {
namespace {

int64_t free_bytes() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
}

}  // namespace

Graphs::~Graphs() {
  drop();
}

void Graphs::drop() {
  for (auto& [key, graph] : graphs_) {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  graphs_.clear();
}

cudaGraphExec_t Graphs::record(const std::function<void()>& work) {
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);  // the stream can be used again; what was thrown says why
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  size_t kernels = 0;
  check(cudaGraphGetNodes(graph, nullptr, &kernels), "cudaGraphGetNodes");
  const int64_t free = free_bytes();
  cudaGraphExec_t ready = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
  check(cudaGraphUpload(ready, stream_), "cudaGraphUpload");
  log_debug("recorded a graph of {} kernels; it takes {} bytes", kernels, free - free_bytes());
  return ready;
}

void Graphs::run(uint64_t key, const std::function<void()>& work) {
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    if (graphs_.size() >= kMostGraphs) {
      check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      drop();
    }
    work();
    graphs_.emplace(key, nullptr);
    return;
  }
  if (found->second == nullptr) found->second = record(work);
  check(cudaGraphLaunch(found->second, stream_), "cudaGraphLaunch");
}

}  // namespace strobe::kernel::cuda
