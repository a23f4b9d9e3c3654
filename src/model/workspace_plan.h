// How much scratch memory a step takes and how many kernels it launches, from a recipe: upper bounds for plans, before
// any kernel runs.
#pragma once

#include <cstdint>

#include "model/recipe.h"

namespace strobe::model {

struct StepShape {
  int64_t rows = 0;        // through the layers
  int64_t logit_rows = 0;  // of which the head sees
  int64_t features = 0;    // layers whose output is captured
  int64_t keys = 0;        // of a request, at most: for recipes that expand (MlaExpansion)
  DType activation = DType::kBf16;
};

[[nodiscard]] int64_t step_workspace_bytes(const Recipe& recipe, const StepShape& shape);
// The part of it that expanded keys and values of prompts take.
[[nodiscard]] int64_t step_expansion_bytes(const Recipe& recipe, const StepShape& shape);

// Of a pass through the layers and the head, and of a draft's context written beside it.
[[nodiscard]] int64_t step_launches(const Recipe& recipe);

}  // namespace strobe::model
