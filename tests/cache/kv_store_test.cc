#include "cache/kv_store.h"

#include <gtest/gtest.h>

#include <cmath>

namespace strobe::cache {
namespace {

TEST(KvStore, BytesFollowTheGeometry) {
  const KvGeometry kimi{.layers = 61, .planes = 1, .dim = 576, .dtype = DType::kE4m3};
  EXPECT_EQ(kimi.bytes_per_token(), 35136);
  const KvGeometry draft{.layers = 6, .planes = 2, .dim = 8 * 128, .dtype = DType::kBf16};
  EXPECT_EQ(draft.bytes_per_token(), 24576);
  const KvStore store({.layers = 2, .planes = 2, .dim = 3, .dtype = DType::kF32}, 4, 5, {1, 2, 3, 4});
  EXPECT_EQ(store.bytes(), 4 * 5 * 2 * 2 * 3 * 4);
  EXPECT_EQ(store.plane(1, 0).scale, 3.0F);
  EXPECT_NE(store.plane(0, 0).data, store.plane(0, 1).data);
}

TEST(KvStore, PoisonIsNanInEveryType) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kE4m3}) {
    KvStore store({.layers = 1, .planes = 1, .dim = 4, .dtype = dtype}, 3, 2);
    store.poison(1);
    const auto* page = static_cast<const std::byte*>(store.plane(0).data) + 2 * 4 * size_bytes(dtype);
    float value = 0;
    if (dtype == DType::kF32) value = *reinterpret_cast<const float*>(page);
    if (dtype == DType::kBf16) value = to_float(*reinterpret_cast<const Bf16*>(page));
    if (dtype == DType::kE4m3) value = to_float(*reinterpret_cast<const E4m3*>(page));
    EXPECT_TRUE(std::isnan(value)) << to_string(dtype);
  }
}

TEST(KvStore, APageIsPoisonedInEveryLayerAndNoOther) {
  KvStore store({.layers = 2, .planes = 2, .dim = 3, .dtype = DType::kF32}, 4, 5);
  store.poison(2);
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (int64_t plane = 0; plane < 2; ++plane) {
      const auto* numbers = static_cast<const float*>(store.plane(layer, plane).data);
      for (int32_t i = 0; i < 4 * 5 * 3; ++i) EXPECT_EQ(std::isnan(numbers[i]), i / (5 * 3) == 2) << i;
    }
  }
}

TEST(KvStore, StartsAsZeros) {
  const KvStore store({.layers = 1, .planes = 1, .dim = 7, .dtype = DType::kE4m3}, 3, 2);
  const auto* bytes = static_cast<const uint8_t*>(store.plane(0).data);
  for (int32_t i = 0; i < 3 * 2 * 7; ++i) EXPECT_EQ(bytes[i], 0);
  EXPECT_EQ(store.plane(0).scale, 1.0F);
}

TEST(KvStoreDeathTest, WhatItRefuses) {
  KvStore store({.layers = 2, .planes = 1, .dim = 3}, 4, 5);
  EXPECT_DEATH(static_cast<void>(store.plane(2)), "layer 2");
  EXPECT_DEATH(store.poison(4), "page 4 of 4");
  EXPECT_DEATH(KvStore({.layers = 2, .planes = 2, .dim = 3}, 4, 5, {1, 2}), "2 scales, 2 layers, 2 planes");
}

}  // namespace
}  // namespace strobe::cache
