// The weights of a row's tokens for drawing, as a list: what the filters keep.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/args.h"

namespace strobe::kernel::ref {

struct TokenWeight {
  int32_t id = 0;
  uint64_t weight = 0;
};

// Of the tokens that DrawTokens draws among, in the order of their ids, none of weight 0. largest: of the logits,
// finite. params.temperature is above 0.
[[nodiscard]] std::vector<TokenWeight> draw_weights(const float* logits, int64_t columns, float largest,
                                                    const DrawParams& params);

}  // namespace strobe::kernel::ref
