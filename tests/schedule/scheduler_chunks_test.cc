// What chunks hold: which tokens come together, and what is said about each of them.
#include <algorithm>

#include "scheduler_fixture.h"

namespace strobe::schedule {
namespace {

class ChunksTest : public SchedulerFixture {
 protected:
  // Drafts of seven, all of which stand.
  void start_with_draft() {
    start({.fake = {.block_tokens = 8}});
    stepper().accept = [](int32_t, int32_t drafts) { return drafts; };
  }
};

// Clients time the first token by the chunk that has one token; it must not come together with an accepted run.
TEST_F(ChunksTest, TheFirstTokenComesAlone) {
  start_with_draft();
  const Ids p = prompt(70);  // read in two steps: the first one gives nothing
  const Listener heard = submit(request(p, 20));
  EXPECT_EQ(heard.wait().reason, FinishReason::kLength);
  const std::vector<Chunk> chunks = heard.chunks();
  ASSERT_EQ(chunks.size(), 4U);  // 1 + 8 + 8 + 3
  EXPECT_EQ(chunks[0].token_ids, answer(p, 1));
  EXPECT_EQ(chunks[0].usage.completion_tokens, 1);
  EXPECT_EQ(chunks[0].usage.decode_steps, 0);
  EXPECT_EQ(chunks[1].token_ids.size(), 8U);
  EXPECT_EQ(chunks[3].token_ids.size(), 3U);
}

TEST_F(ChunksTest, LogprobsFollowTheirTokens) {
  start_with_draft();
  GenerateRequest asking = request(prompt(5), 20);
  asking.sampling.logprobs = 1;
  const Ids said = answer(prompt(5), 20);
  // Cut inside a block, so that some tokens of a step are not emitted.
  const auto stop = std::find_if(said.begin() + 11, said.end(), [&](int32_t id) {
    return std::find(said.begin(), said.begin() + 11, id) == said.begin() + 11;
  });
  ASSERT_LT(stop - said.begin(), 16) << "the stop must lie inside the second block";
  asking.stop.stop_token_ids = {*stop};
  const Listener heard = submit(std::move(asking));
  const Listener silent = submit(request(prompt(5), 20));
  EXPECT_EQ(heard.wait().reason, FinishReason::kStop);
  silent.wait();
  EXPECT_EQ(heard.tokens().size(), static_cast<size_t>(stop - said.begin()) + 1);
  for (const Chunk& chunk : heard.chunks()) {
    ASSERT_EQ(chunk.logprobs.size(), chunk.token_ids.size());
    for (size_t i = 0; i < chunk.token_ids.size(); ++i) {
      EXPECT_EQ(chunk.logprobs[i], FakeStepper::logprobs(chunk.token_ids[i]));
    }
  }
  for (const Chunk& chunk : silent.chunks()) EXPECT_TRUE(chunk.logprobs.empty());
}

}  // namespace
}  // namespace strobe::schedule
