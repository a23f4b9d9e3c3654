// Times launches as they run in a server: replays of a CUDA graph, on operands that lie outside the L2 cache.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace strobe::bench {

struct GraphTiming {
  double median_us = 0;  // of one launch
  double best_us = 0;
};

// How many sets of operands of `bytes` each make every launch find its own outside L2: 300 MB of them, 4 to 64 sets.
int cold_copies(int64_t bytes);

// Captures launch(i, stream) for i in [0, copies) into one graph, replays it, and divides by `copies`. Each launch must
// use set i of its operands. Throws a Failure when a launch fails.
GraphTiming time_graph(int copies, const std::function<void(int, cudaStream_t)>& launch, int replays = 12);

}  // namespace strobe::bench
