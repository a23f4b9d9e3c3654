// What a DFlash stepper is told.
#pragma once

#include <cstdint>

#include "spec/acceptance.h"

namespace strobe::spec {

struct DflashOptions {
  int32_t block_tokens = 8;   // B, the last token included
  int32_t window_tokens = 0;  // draft window; 0 = the whole context
  int32_t page_size = 64;
  int32_t max_rows = 0;
  // Steps that only decode run as recordings (recorded_step.h).
  bool recorded = false;
  AcceptRule rule = accept;
};

}  // namespace strobe::spec
