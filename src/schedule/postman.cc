#include "schedule/postman.h"

#include <iterator>
#include <utility>

namespace strobe::schedule {
namespace {

std::vector<TokenOrigin> origins_of(const Letter& letter) {
  std::vector<TokenOrigin> origins;
  const auto tokens = static_cast<int32_t>(letter.chunk.token_ids.size());
  origins.reserve(static_cast<size_t>(tokens));
  for (int32_t place = 0; place < tokens; ++place) {
    origins.push_back({.step = letter.block.step,
                       .block_position = place < letter.block.accepted ? place + 1 : 0,
                       .drafted = letter.block.drafted});
  }
  return origins;
}

}  // namespace

Postman::Postman() : thread_([this] { loop(); }) {}

Postman::~Postman() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Postman::post(std::vector<Letter>& letters) {
  if (letters.empty()) return;
  {
    std::lock_guard lock(mutex_);
    if (posted_.empty()) {
      posted_.swap(letters);
    } else {
      posted_.insert(posted_.end(), std::make_move_iterator(letters.begin()), std::make_move_iterator(letters.end()));
    }
  }
  letters.clear();
  wake_.notify_one();
}

void Postman::wait_until_delivered() {
  std::unique_lock lock(mutex_);
  delivered_.wait(lock, [&] { return posted_.empty() && !delivering_; });
}

void Postman::loop() {
  std::vector<Letter> round;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !posted_.empty(); });
      if (posted_.empty()) return;
      round.swap(posted_);
      delivering_ = true;
    }
    for (Letter& letter : round) {
      letter.chunk.origins = origins_of(letter);
      (*letter.sink)(std::move(letter.chunk));
    }
    round.clear();
    std::lock_guard lock(mutex_);
    delivering_ = false;
    delivered_.notify_all();
  }
}

}  // namespace strobe::schedule
