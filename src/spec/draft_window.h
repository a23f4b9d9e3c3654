// The draft window: how much of the context the DRAFT attends to (--speculative-draft-window-size). It limits neither
// what the target sees nor what is written to the draft's cache.
#pragma once

#include <cstdint>

namespace strobe::spec {

// The first position a block that starts at `committed` (tokens before it) may see: the last `window` committed ones,
// rounded down to a page boundary, so that up to page_size - 1 more are visible. window 0 = no limit. Source: SGLang's
// compact draft window, whose page table can only begin at a page.
[[nodiscard]] constexpr int32_t first_visible_position(int32_t committed, int32_t window, int32_t page_size) {
  if (window <= 0 || committed <= window) return 0;
  return (committed - window) / page_size * page_size;
}

}  // namespace strobe::spec
