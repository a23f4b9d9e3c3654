// Postman: delivers chunks to their sinks on a thread of its own, in the order they were posted, so that the next step
// runs while clients' texts are written.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "schedule/generator.h"

namespace strobe::schedule {

struct Letter {
  // The step its tokens come from, which Chunk::origins tell of each; they are written on the postman's thread.
  struct Block {
    int32_t step = 0;
    int32_t drafted = 0;
    int32_t accepted = 0;
  };

  const ChunkSink* sink = nullptr;
  std::unique_ptr<const ChunkSink> last_of;  // of a request's last letter: its sink goes with it
  Block block;
  Chunk chunk;
};

class Postman {
 public:
  Postman();
  // Delivers what was posted before.
  ~Postman();
  Postman(const Postman&) = delete;
  Postman& operator=(const Postman&) = delete;

  // Takes all letters; `letters` is empty afterwards.
  void post(std::vector<Letter>& letters);
  // Waits until all that was posted is delivered; not to be called by a sink.
  void wait_until_delivered();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable delivered_;
  std::vector<Letter> posted_;
  bool delivering_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strobe::schedule
