// Asking for memory that later calls read while this one computes. A core gets 30 GB/s from its third-level cache, from
// where a decode step reads all weights; while attention computes with keys in its second-level cache, nothing comes
// from there, and while NVFP4 experts are expanded, half of that. One line for every 8 to 16 cycles of arithmetic,
// evenly, is free or nearly so; many at once are not: they hold up the loads behind them. A worker asks for those parts
// of each call that on_pieces will give it.
#pragma once

#include "kernel/cpu/generic/tasks.h"

namespace strobe::kernel::STROBE_ISA_NAMESPACE {

class Ahead;
static bool find_memory(Ahead& a);

// One worker's way through a list of memory. Undefined before begin().
class alignas(64) Ahead {
 public:
  void begin(const Upcoming* list, int64_t count, int worker, int workers) {
    next_ = list;
    end_ = list + count;
    worker_ = worker;
    workers_ = workers;
    at_ = stop_ = nullptr;
    call_ = -1;
  }
  // Asks for the next line of 64 bytes of what has been found.
  [[gnu::always_inline]] inline void ask() {
    if (at_ < stop_) {
      __builtin_prefetch(at_, 0, 2);
      at_ += 64;
    }
  }
  // The same of up to so many, looking for more memory first.
  [[gnu::always_inline]] inline void ask(int lines) {
    if (!more()) return;
    for (int i = 0; i < lines; ++i) ask();
  }
  // Whether there is something to ask for; looks for more memory. To be called before a loop that calls ask().
  [[gnu::always_inline]] inline bool more() { return at_ < stop_ || (next_ != end_ && find_memory(*this)); }

 private:
  friend bool find_memory(Ahead& a);

  const Upcoming* next_;
  const Upcoming* end_;
  const std::byte* at_;
  const std::byte* stop_;
  int64_t begin_, finish_;  // our part of the call's bytes
  int64_t before_;          // bytes of the call before next_
  int32_t call_;
  int worker_, workers_;
};

// Goes on to the next memory of which a part is the worker's.
[[gnu::noinline]] static bool find_memory(Ahead& a) {
  for (; a.next_ != a.end_; ++a.next_) {
    const Upcoming& next = *a.next_;
    if (next.call != a.call_) {
      a.call_ = next.call;
      int64_t bytes = 0;
      for (const Upcoming* u = a.next_; u != a.end_ && u->call == a.call_; ++u) bytes += u->bytes;
      a.begin_ = bytes * a.worker_ / a.workers_;
      a.finish_ = bytes * (a.worker_ + 1) / a.workers_;
      a.before_ = 0;
    }
    const int64_t from = greater(a.begin_ - a.before_, 0), to = smaller(a.finish_ - a.before_, next.bytes);
    a.before_ += next.bytes;
    if (from >= to || next.data == nullptr) continue;
    a.at_ = static_cast<const std::byte*>(next.data) + from;
    a.stop_ = static_cast<const std::byte*>(next.data) + to;
    ++a.next_;
    return true;
  }
  return false;
}

// Where there is nothing to ask for: zeros, which nobody changes.
[[maybe_unused]] static Ahead nothing_ahead;

}  // namespace strobe::kernel::STROBE_ISA_NAMESPACE
