#include "schedule/postman.h"

#include <iterator>
#include <utility>

namespace strobe::schedule {

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
    posted_.insert(posted_.end(), std::make_move_iterator(letters.begin()), std::make_move_iterator(letters.end()));
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
    for (Letter& letter : round) (*letter.sink)(std::move(letter.chunk));
    round.clear();
    std::lock_guard lock(mutex_);
    delivering_ = false;
    delivered_.notify_all();
  }
}

}  // namespace strobe::schedule
