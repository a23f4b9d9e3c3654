#include "graph_timer.h"

#include <algorithm>

#include "kernel/cuda/launch.h"

namespace strobe::bench {

using kernel::cuda::check;

int cold_copies(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>(300'000'000 / std::max<int64_t>(bytes, 1) + 1, 4, 64));
}

GraphTiming time_graph(int copies, const std::function<void(int, cudaStream_t)>& launch, int replays) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  launch(0, stream);  // outside the graph: modules are loaded and attributes set at a first launch
  check(cudaStreamSynchronize(stream), "the first launch");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < copies; ++i) launch(i, stream);
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");

  std::vector<double> times;
  for (int i = 0; i < replays + 2; ++i) {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    check(cudaGraphLaunch(replay, stream), "cudaGraphLaunch");
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaStreamSynchronize(stream), "a graph's replay");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (i >= 2) times.push_back(static_cast<double>(ms) * 1e3 / copies);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  std::sort(times.begin(), times.end());
  return {.median_us = times[times.size() / 2], .best_us = times.front()};
}

}  // namespace strobe::bench
