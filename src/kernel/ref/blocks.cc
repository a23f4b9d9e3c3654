#include "kernel/ref/families.h"

namespace strobe::kernel::ref {

void fill_drafts(const FillDrafts& call) {
  for (int64_t r = 0; r < call.blocks.sequences * call.blocks.block_rows; ++r) {
    if (r % call.blocks.block_rows != 0) call.ids[r] = call.drafted[r];
  }
}

void accept_greedy(const AcceptGreedy& call) {
  const int64_t rows = call.blocks.block_rows;
  for (int64_t s = 0; s < call.blocks.sequences; ++s) {
    const int64_t first = s * rows, tokens = call.blocks.block_tokens[s];
    int32_t accepted = 0;
    while (accepted + 1 < tokens && call.ids[first + accepted + 1] == call.best[first + accepted]) ++accepted;
    call.accepted[s] = accepted;
    for (int64_t r = 0; r < rows; ++r) {
      call.committed[first + r] = r < tokens && r <= accepted ? call.slots[first + r] : -1;
    }
  }
}

}  // namespace strobe::kernel::ref
