#include "engine/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace strobe::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

BackendQuery mla(std::string name) {
  return {.name = std::move(name), .role = BackendRole::kDecode, .mla = true, .kv_dtype = DType::kE4m3};
}

BackendQuery draft(std::string name) {
  return {.name = std::move(name), .role = BackendRole::kDraft};
}

TEST(Backends, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const Backend& backend : backends()) EXPECT_TRUE(names.insert(backend.name).second) << backend.name;
}

TEST(Backends, NothingAndAutoAreOurs) {
  for (const char* name : {"", "auto"}) {
    for (const bool strict : {false, true}) {
      BackendQuery query = mla(name);
      query.strict = strict;
      const auto decision = resolve_backend(query);
      ASSERT_TRUE(decision.ok());
      EXPECT_EQ(decision->backend.name, "strobe");
      EXPECT_EQ(decision->reason, "the default");
      EXPECT_EQ(decision->kernel, "paged latent attention");
    }
  }
  EXPECT_EQ(resolve_backend(draft("auto"))->kernel, "paged grouped-query attention");
}

TEST(Backends, OursByNameIsNoSubstitution) {
  BackendQuery query = mla("strobe");
  query.strict = true;
  EXPECT_EQ(resolve_backend(query)->reason, "as asked");
}

TEST(Backends, AForeignNameSaysWhatRuns) {
  const auto decision = resolve_backend(mla("trtllm_mla"));
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->backend.name, "trtllm_mla");
  EXPECT_EQ(decision->reason, "Strobe's kernel does the job of 'trtllm_mla' on cpu");
}

TEST(Backends, StrictRefusesEverySubstitution) {
  for (const Backend& backend : backends()) {
    for (const BackendRole role :
         {BackendRole::kPrefill, BackendRole::kDecode, BackendRole::kVerify, BackendRole::kDraft}) {
      BackendQuery query{.name = std::string(backend.name), .role = role, .strict = true};
      const auto decision = resolve_backend(query);
      EXPECT_EQ(decision.ok(), backend.name == "strobe") << backend.name;
    }
  }
  BackendQuery query = mla("flashinfer");
  query.strict = true;
  EXPECT_THAT(resolve_backend(query).message(),
              AllOf(HasSubstr("decode attention backend 'flashinfer'"), HasSubstr("cpu"),
                    HasSubstr("--strict-backends"), HasSubstr("paged latent attention")));
}

TEST(Backends, UnknownNamesListWhatFits) {
  const auto target = resolve_backend(mla("flash_attn"));
  ASSERT_FALSE(target.ok());
  EXPECT_THAT(target.message(), AllOf(HasSubstr("decode attention backend 'flash_attn' is not known"),
                                      HasSubstr("auto, strobe, trtllm_mla"), Not(HasSubstr("fa4"))));
  const auto block = resolve_backend(draft("flash_attn"));
  ASSERT_FALSE(block.ok());
  EXPECT_THAT(block.message(), AllOf(HasSubstr("draft attention backend 'flash_attn'"), HasSubstr("fa4, flashinfer"),
                                     Not(HasSubstr("trtllm_mla"))));
  EXPECT_FALSE(resolve_backend(mla("FA3")).ok()) << "names are spelled as SGLang spells them";
}

TEST(Backends, RolesThatABackendDoesNotHave) {
  const auto target = resolve_backend(mla("fa4"));
  ASSERT_FALSE(target.ok());
  EXPECT_THAT(target.message(), HasSubstr("'fa4' cannot be the decode backend of this model; accepted: auto, strobe"));
  const auto block = resolve_backend(draft("trtllm_mla"));
  ASSERT_FALSE(block.ok());
  EXPECT_THAT(block.message(), HasSubstr("'trtllm_mla' cannot be the draft backend of this model"));
  // Grouped-query targets may run on it.
  BackendQuery query = mla("fa4");
  query.mla = false;
  query.kv_dtype = DType::kBf16;
  EXPECT_TRUE(resolve_backend(query).ok());
}

TEST(Backends, Fp8CachesNeedABackendThatReadsThem) {
  BackendQuery query = mla("torch_native");
  const auto decision = resolve_backend(query);
  ASSERT_FALSE(decision.ok());
  EXPECT_THAT(decision.message(),
              AllOf(HasSubstr("'torch_native' cannot read an fp8_e4m3 KV cache"), HasSubstr("--kv-cache-dtype bf16")));
  query.kv_dtype = DType::kBf16;
  EXPECT_TRUE(resolve_backend(query).ok());
  // The draft's cache is decided later, by draft_kv_dtype.
  query = draft("torch_native");
  query.kv_dtype = DType::kE4m3;
  EXPECT_TRUE(resolve_backend(query).ok());
}

TEST(Backends, PageSizes) {
  struct Case {
    const char* name;
    int32_t page_size;
    bool ok;
  };
  for (const Case& c : {Case{"trtllm_mla", 32, true}, Case{"trtllm_mla", 64, true}, Case{"trtllm_mla", 16, false},
                        Case{"trtllm_mla", 128, false}, Case{"cutedsl_mla", 1, false}, Case{"flashmla", 32, false},
                        Case{"flashmla", 64, true}, Case{"flashinfer", 1, true}, Case{"strobe", 7, true}}) {
    BackendQuery query = mla(c.name);
    query.page_size = c.page_size;
    const auto decision = resolve_backend(query);
    EXPECT_EQ(decision.ok(), c.ok) << c.name << " " << c.page_size;
    if (!c.ok) {
      EXPECT_THAT(decision.message(), HasSubstr(fmt::format("'{}' has no page size {}", c.name, c.page_size)));
    }
  }
}

TEST(Backends, OnlySomeNeedKeysOfTheQueriesType) {
  std::set<std::string> equal;
  for (const char* name : {"strobe", "fa3", "fa4", "flashinfer", "triton", "torch_native"}) {
    if (resolve_backend(draft(name))->backend.k_type_equals_q_type) equal.insert(name);
  }
  EXPECT_EQ(equal, (std::set<std::string>{"fa4", "torch_native"}));
}

TEST(Backends, ADraftOnTrtllmMhaRunsOnFlashinfer) {
  const auto decision = resolve_backend(draft("trtllm_mha"));
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->backend.name, "flashinfer");
  EXPECT_FALSE(decision->backend.k_type_equals_q_type);
  EXPECT_THAT(decision->reason, AllOf(HasSubstr("trtllm_mha"), HasSubstr("flashinfer instead")));
  BackendQuery target = draft("trtllm_mha");
  target.role = BackendRole::kDecode;
  EXPECT_EQ(resolve_backend(target)->backend.name, "trtllm_mha") << "targets keep it";
}

}  // namespace
}  // namespace strobe::engine
