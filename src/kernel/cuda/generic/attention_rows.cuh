// What attention kernels find out about requests on the device.
#pragma once

#include <cstdint>

#include "kernel/args.h"

namespace strobe::kernel::cuda {

// The positions [first, last) that a row sees.
struct Visible {
  int first = 0;
  int last = 0;
};

// Row j of a request. `first_visible`: 0 where there is none.
__device__ inline Visible visible_to(const AttentionRequest& request, int j, int first_visible, bool causal,
                                     int window) {
  Visible v{.first = max(first_visible, 0), .last = request.key_count};
  if (causal) {
    const int position = request.first_position + j;
    v.last = min(v.last, position + 1);
    if (window > 0) v.first = max(v.first, position - window + 1);
  }
  return v;
}

// The slot of a position; the position must be stored.
__device__ inline int64_t slot_of(const int32_t* pages, int page_size, int position) {
  return int64_t{pages[position / page_size]} * page_size + position % page_size;
}

}  // namespace strobe::kernel::cuda
