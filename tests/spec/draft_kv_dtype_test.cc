#include "spec/draft_kv_dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strobe::spec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr DType kFp8 = DType::kE4m3;
constexpr DType kBf16 = DType::kBf16;

TEST(DraftKvDtype, EveryCombination) {
  struct Case {
    DType target;
    bool equal_types;
    std::optional<DType> flag;
    DType expected;
    const char* reason;
  };
  const char* by_target = "as the target's KV cache; draft attention backend 'x' can read it";
  const char* by_flag = "as --speculative-draft-kv-cache-dtype; draft attention backend 'x' can read it";
  const char* forced = "'x' needs keys of the type of its queries, so bf16 instead of fp8_e4m3";
  const Case cases[] = {
      {kFp8, false, {}, kFp8, by_target},   {kBf16, false, {}, kBf16, by_target},  {kFp8, true, {}, kBf16, forced},
      {kBf16, true, {}, kBf16, by_target},  {kFp8, false, kFp8, kFp8, by_flag},    {kBf16, false, kFp8, kFp8, by_flag},
      {kFp8, false, kBf16, kBf16, by_flag}, {kBf16, false, kBf16, kBf16, by_flag}, {kFp8, true, kFp8, kBf16, forced},
      {kBf16, true, kFp8, kBf16, forced},   {kFp8, true, kBf16, kBf16, by_flag},   {kBf16, true, kBf16, kBf16, by_flag},
  };
  for (const Case& c : cases) {
    const auto decision = resolve_draft_kv_dtype({.target_kv = c.target,
                                                  .model = kBf16,
                                                  .backend = "x",
                                                  .backend_needs_equal_types = c.equal_types,
                                                  .flag = c.flag});
    EXPECT_EQ(decision.dtype, c.expected) << decision.reason;
    EXPECT_THAT(decision.reason, HasSubstr(c.reason));
  }
}

TEST(DraftKvDtype, AForcedTypeSaysWhoAskedForTheOther) {
  DraftKvInputs inputs{.target_kv = kFp8, .model = kBf16, .backend = "fa4", .backend_needs_equal_types = true};
  EXPECT_THAT(resolve_draft_kv_dtype(inputs).reason, HasSubstr("(the target's KV cache)"));
  inputs.flag = kFp8;
  EXPECT_THAT(resolve_draft_kv_dtype(inputs).reason,
              AllOf(HasSubstr("'fa4'"), HasSubstr("(--speculative-draft-kv-cache-dtype)")));
}

TEST(DraftKvDtype, TheModelTypeIsTheDraftsOwn) {
  const auto decision = resolve_draft_kv_dtype(
      {.target_kv = kBf16, .model = DType::kF32, .backend = "fa4", .backend_needs_equal_types = true});
  EXPECT_EQ(decision.dtype, DType::kF32);
  EXPECT_THAT(decision.reason, HasSubstr("f32 instead of bf16"));
}

}  // namespace
}  // namespace strobe::spec
