// Waiting for things that happen on the scheduler's thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "schedule/generator.h"

namespace strobe::schedule {

// A door that is shut until somebody opens it; then it stays open.
class Gate {
 public:
  void open();
  // A failure of the test after half a minute.
  void pass();

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

// What one client hears. Copies share it.
class Listener {
 public:
  Listener() : state_(std::make_shared<State>()) {}

  // Fails the test when a chunk comes behind the last one.
  [[nodiscard]] ChunkSink sink() const;
  // `also` is called with each chunk before those who wait hear of it.
  [[nodiscard]] ChunkSink sink(std::function<void(const Chunk&)> also) const;

  // Waits for the end.
  Finish wait() const;
  // Waits for at least this many chunks; false when the end came before.
  bool wait_for_chunks(size_t count) const;

  [[nodiscard]] std::vector<Chunk> chunks() const;
  [[nodiscard]] std::vector<int32_t> tokens() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] Usage usage() const;  // of the last chunk
  [[nodiscard]] bool finished() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable heard;
    std::vector<Chunk> chunks;
    bool finished = false;
  };
  std::shared_ptr<State> state_;
};

}  // namespace strobe::schedule
