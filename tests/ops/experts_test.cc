// Routed experts one by one on a device, where the host never sees who chose whom, against the reference on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "places.h"

namespace strobe::ops {
namespace {

// ---- pairs by expert ----

class Grouping : public testing::TestWithParam<DeviceKind> {};

TEST_P(Grouping, EveryPairHasAPlaceOfItsExpert) {
  WorkerPool pool(1);
  Place place(pool, GetParam());
  std::mt19937 random(3);
  for (const auto& [rows, top_k, experts] :
       {std::tuple{0, 8, 16}, {1, 8, 384}, {3, 1, 1}, {700, 4, 1024}, {4096, 8, 33}}) {
    const auto pairs = static_cast<size_t>(rows * top_k);
    std::vector<int32_t> ids(pairs), host;
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<unsigned>(experts));
    WorkspaceFrame frame(*place.workspace);
    const Tensor there = to_device(*place.exec, frame, Tensor(ids.data(), DType::kI32, {static_cast<int64_t>(pairs)}));
    const Tensor all = frame.tensor(DType::kI32, {experts + 1 + 2 * rows * top_k});
    auto* begin = all.as<int32_t>();
    place.kernels->group_by_expert({.ids = there.as<int32_t>(),
                                    .rows = rows,
                                    .top_k = top_k,
                                    .experts = experts,
                                    .begin = begin,
                                    .tokens = begin + experts + 1,
                                    .slots = begin + experts + 1 + rows * top_k});
    std::vector<std::byte> storage;
    const auto* said = to_host(*place.exec, all, storage).as<int32_t>();
    const int32_t* tokens = said + experts + 1;
    const int32_t* slots = tokens + pairs;
    EXPECT_EQ(said[0], 0);
    EXPECT_EQ(said[experts], rows * top_k);
    std::vector<bool> taken(pairs);
    for (size_t i = 0; i < pairs; ++i) {
      ASSERT_GE(slots[i], said[ids[i]]);
      ASSERT_LT(slots[i], said[ids[i] + 1]);
      const auto slot = static_cast<size_t>(slots[i]);
      EXPECT_FALSE(taken[slot]);
      taken[slot] = true;
      EXPECT_EQ(tokens[slot], static_cast<int32_t>(i) / top_k);
    }
  }
}

// ---- experts ----

constexpr int64_t kExperts = 70, kHidden = 128, kInter = 96, kTopK = 4;

class ExpertsOnDevice : public testing::TestWithParam<DeviceKind> {
 protected:
  ExpertsOnDevice() : pool_(2), device_(pool_, GetParam()), host_(pool_, DeviceKind::kCpu) {
    const auto matrix = [&](int64_t out, int64_t in) {
      auto& numbers = matrices_.emplace_back(static_cast<size_t>(out * in));
      for (Bf16& x : numbers) x = to_bf16(normal() / 8);
      return QuantTensor{.format = WeightFormat::kBf16, .out = out, .in = in, .data = numbers.data()};
    };
    matrices_.reserve(3 * kExperts);
    std::vector<Expert> experts;
    for (int64_t e = 0; e < kExperts; ++e) {
      experts.push_back({matrix(kInter, kHidden), matrix(kInter, kHidden), matrix(kHidden, kInter)});
    }
    on_device_ = device_arena_.pack_experts(experts);
    on_host_ = host_arena_.pack_experts(experts);
  }
  float normal() { return normal_(random_); }

  // What the experts add to h = 0 for rows of x [tokens, hidden] and logits [tokens, experts].
  std::vector<float> run(Place& place, const ExpertWeights& weights, const std::vector<float>& x,
                         const std::vector<float>& logits) {
    const auto tokens = static_cast<int64_t>(x.size()) / kHidden;
    WorkspaceFrame frame(*place.workspace);
    const auto there = [&](const std::vector<float>& list, int64_t columns) {
      return to_device(*place.exec, frame, Tensor(const_cast<float*>(list.data()), DType::kF32, {tokens, columns}));
    };
    const Tensor input = frame.tensor(place.exec->activation(), {tokens, kHidden});
    copy(*place.exec, there(x, kHidden), input);
    const std::vector<float> zeros(x.size());
    const Tensor h = frame.tensor(DType::kF32, {tokens, kHidden});
    place.exec->memory().upload(h.data(), zeros.data(), h.bytes());
    routed_experts(*place.exec, {.top_k = kTopK, .scale = 2.5F}, weights, input, there(logits, kExperts), h);
    std::vector<std::byte> storage;
    const auto* said = to_host(*place.exec, h, storage).as<float>();
    return {said, said + x.size()};
  }

  std::mt19937 random_{9};
  std::normal_distribution<float> normal_;
  WorkerPool pool_;
  Place device_, host_;
  WeightArena device_arena_{device_.kernels->forms(), device_.kernels->memory()};
  WeightArena host_arena_{host_.kernels->forms(), host_.kernels->memory()};
  std::vector<std::vector<Bf16>> matrices_;
  ExpertWeights on_device_, on_host_;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExpertsOnDevice);

TEST_P(ExpertsOnDevice, AddWhatTheReferenceAdds) {
  ASSERT_FALSE(on_device_.fused());
  for (const int64_t tokens : {1, 2, 9, 40, 300, 1500}) {
    std::vector<float> x(static_cast<size_t>(tokens * kHidden)), logits(static_cast<size_t>(tokens * kExperts));
    for (float& v : x) v = to_float(to_bf16(normal()));
    for (float& v : logits) v = normal();
    if (tokens == 40) {  // all to the same few experts
      for (size_t i = 0; i < logits.size(); ++i) logits[i] = i % kExperts < kTopK ? 2 + 0.1F * normal() : -2;
    }
    const std::vector<float> actual = run(device_, on_device_, x, logits), expected = run(host_, on_host_, x, logits);
    double largest = 0;
    for (const float v : expected) largest = std::max(largest, std::fabs(static_cast<double>(v)));
    ASSERT_GT(largest, 0.1);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 0x1p-7 * largest) << tokens << " tokens, number " << i;
    }
    // A token alone gets the same bytes.
    for (int64_t t = 0; t < tokens; t += std::max<int64_t>(1, tokens / 5)) {
      const std::vector<float> alone =
          run(device_, on_device_, {x.begin() + t * kHidden, x.begin() + (t + 1) * kHidden},
              {logits.begin() + t * kExperts, logits.begin() + (t + 1) * kExperts});
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), actual.begin() + t * kHidden)) << t << " of " << tokens;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Grouping, testing::ValuesIn(devices_here()), device_name);
INSTANTIATE_TEST_SUITE_P(Devices, ExpertsOnDevice, testing::ValuesIn(gpus_here()), device_name);

}  // namespace
}  // namespace strobe::ops
