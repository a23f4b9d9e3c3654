#include "listener.h"

#include <gtest/gtest.h>

#include <chrono>

namespace strobe::schedule {
namespace {

constexpr std::chrono::seconds kPatience(30);

}  // namespace

void Gate::open() {
  std::lock_guard lock(mutex_);
  open_ = true;
  opened_.notify_all();
}

void Gate::pass() {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(opened_.wait_for(lock, kPatience, [&] { return open_; })) << "a gate stayed shut";
}

ChunkSink Listener::sink() const {
  return sink({});
}

ChunkSink Listener::sink(std::function<void(const Chunk&)> also) const {
  return [state = state_, also = std::move(also)](Chunk chunk) {
    EXPECT_EQ(chunk.token_ids.size(), chunk.origins.size());
    if (also) also(chunk);
    std::lock_guard lock(state->mutex);
    EXPECT_FALSE(state->finished) << "a chunk behind the end";
    state->finished = chunk.finish.has_value();
    state->chunks.push_back(std::move(chunk));
    state->heard.notify_all();
  };
}

Finish Listener::wait() const {
  std::unique_lock lock(state_->mutex);
  if (!state_->heard.wait_for(lock, kPatience, [&] { return state_->finished; })) {
    ADD_FAILURE() << "no end came";
    return {};
  }
  return *state_->chunks.back().finish;
}

bool Listener::wait_for_chunks(size_t count) const {
  std::unique_lock lock(state_->mutex);
  EXPECT_TRUE(
      state_->heard.wait_for(lock, kPatience, [&] { return state_->finished || state_->chunks.size() >= count; }));
  return state_->chunks.size() >= count;
}

std::vector<Chunk> Listener::chunks() const {
  std::lock_guard lock(state_->mutex);
  return state_->chunks;
}

std::vector<int32_t> Listener::tokens() const {
  std::vector<int32_t> tokens;
  for (const Chunk& chunk : chunks()) tokens.insert(tokens.end(), chunk.token_ids.begin(), chunk.token_ids.end());
  return tokens;
}

std::string Listener::text() const {
  std::string text;
  for (const Chunk& chunk : chunks()) text += chunk.text;
  return text;
}

Usage Listener::usage() const {
  const auto all = chunks();
  return all.empty() ? Usage{} : all.back().usage;
}

bool Listener::finished() const {
  std::lock_guard lock(state_->mutex);
  return state_->finished;
}

}  // namespace strobe::schedule
